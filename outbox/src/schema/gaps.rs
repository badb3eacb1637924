//! What one side writes and the other can't read.
//!
//! The judgement is on the safe side: where two schemas differ in something that is not understood here, it
//! says that it can't tell, and that counts as a gap.

use std::fmt;

use serde_json::Value;

use super::flat::{
    Flat, flat, is_closed, is_of, name_of, properties, property, required, requires, tag, text,
    type_of, values,
};

/// Something that may be written and can't be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Gap {
    /// Where: `lines[].quantity`.
    pub(super) path: String,
    pub(super) why: String,
}

/// What a reader of the one schema can't read of what a writer of the other writes.
pub(super) fn gaps(reader: &Value, writer: &Value) -> Vec<Gap> {
    let mut search = Search {
        reader,
        writer,
        open: Vec::new(),
    };
    search.schema(reader, writer, "")
}

struct Search<'s> {
    reader: &'s Value,
    writer: &'s Value,
    /// The pairs that are being compared: a type may contain itself.
    open: Vec<(Value, Value)>,
}

impl Search<'_> {
    fn schema(&mut self, reader: &Value, writer: &Value, path: &str) -> Vec<Gap> {
        let pair = (reader.clone(), writer.clone());
        if self.open.contains(&pair) {
            return Vec::new();
        }
        self.open.push(pair);
        let gaps = self.alternatives(&flat(reader, self.reader), &flat(writer, self.writer), path);
        self.open.pop();
        gaps
    }

    /// Each alternative that is written has to be one that is read.
    fn alternatives(&mut self, readers: &[Flat], writers: &[Flat], path: &str) -> Vec<Gap> {
        let mut all = Vec::new();
        for writer in writers {
            let mut found = Vec::new();
            for reader in readers {
                if readers.len() == 1 || self.is_akin(reader, writer) {
                    found.push(self.alternative(reader, writer, path));
                }
            }
            match found.into_iter().min_by_key(Vec::len) {
                Some(gaps) => all.extend(gaps),
                None => all.push(gap(
                    path,
                    format!(
                        "{} may be written, and is not read",
                        name_of(writer, self.writer)
                    ),
                )),
            }
        }
        all.dedup();
        all
    }

    /// Whether the reader's alternative is the one that is meant by the writer's.
    fn is_akin(&self, reader: &Flat, writer: &Flat) -> bool {
        let types = match (type_of(reader), type_of(writer)) {
            (Some(read), Some(written)) => takes(read, written),
            _ => true,
        };
        let tags = match (tag(reader, self.reader), tag(writer, self.writer)) {
            (Some(read), Some(written)) => read == written,
            _ => true,
        };
        types && tags
    }

    fn alternative(&mut self, reader: &Flat, writer: &Flat, path: &str) -> Vec<Gap> {
        if let Some(written) = values(writer) {
            return written
                .into_iter()
                .filter_map(|value| refused(reader, value))
                .map(|why| gap(path, why))
                .collect();
        }
        if let Some(read) = values(reader) {
            let read: Vec<_> = read
                .into_iter()
                .map(|value| format!("`{}`", text(value)))
                .collect();
            let written = name_of(writer, self.writer);
            return vec![gap(
                path,
                format!(
                    "any {written} may be written, and only {} is read",
                    read.join(", ")
                ),
            )];
        }
        match (type_of(reader), type_of(writer)) {
            (Some(read), None) => {
                return vec![gap(
                    path,
                    format!("anything may be written, and only {read} is read"),
                )];
            }
            (Some(read), Some(written)) if !takes(read, written) => {
                return vec![gap(
                    path,
                    format!("{written} is written, and {read} is read"),
                )];
            }
            _ => {}
        }
        let mut gaps = bounds(reader, writer, path);
        gaps.extend(same(reader, writer, path));
        gaps.extend(self.items(reader, writer, path));
        gaps.extend(self.fields(reader, writer, path));
        gaps
    }

    fn items(&mut self, reader: &Flat, writer: &Flat, path: &str) -> Vec<Gap> {
        let list = |schema: &Flat| {
            let items = schema.get("prefixItems").and_then(Value::as_array);
            items.cloned().unwrap_or_default()
        };
        let (read, written) = (list(reader), list(writer));
        let rest = |schema: &Flat| schema.get("items").cloned();
        let any = Value::Bool(true);
        let mut gaps = Vec::new();
        for at in 0..read.len().max(written.len()) {
            // What is not written at all is a matter of `minItems`.
            let Some(written) = written.get(at).cloned().or_else(|| rest(writer)) else {
                continue;
            };
            let read = read.get(at).cloned().or_else(|| rest(reader));
            gaps.extend(self.schema(
                read.as_ref().unwrap_or(&any),
                &written,
                &format!("{path}[{at}]"),
            ));
        }
        if let (Some(read), Some(written)) = (rest(reader), rest(writer)) {
            gaps.extend(self.schema(&read, &written, &format!("{path}[]")));
        }
        gaps
    }

    fn fields(&mut self, reader: &Flat, writer: &Flat, path: &str) -> Vec<Gap> {
        let mut gaps = Vec::new();
        for name in required(reader).filter(|name| !requires(writer, name)) {
            let why = match property(writer, name) {
                Some(_) => "it has to be there, and may be left out",
                None => "it has to be there, and is not written",
            };
            gaps.push(gap(&below(path, name), why.to_owned()));
        }
        for (name, written) in properties(writer) {
            let at = below(path, name);
            match property(reader, name) {
                Some(read) => gaps.extend(self.schema(read, written, &at)),
                None => gaps.extend(self.unnamed(reader, written, &at)),
            }
        }
        // Fields of any name: maps. A struct writes no others than those it names.
        for (pattern, written) in patterns(writer) {
            let at = below(path, "*");
            let read = patterns(reader).find(|(theirs, _)| *theirs == pattern);
            match read {
                Some((_, read)) => gaps.extend(self.schema(read, written, &at)),
                None => gaps.extend(self.unnamed(reader, written, &at)),
            }
        }
        if let Some(written) = writer
            .get("additionalProperties")
            .filter(|any| **any != false)
        {
            let at = below(path, "*");
            gaps.extend(self.unnamed(reader, written, &at));
            for (name, read) in
                properties(reader).filter(|(name, _)| property(writer, name).is_none())
            {
                gaps.extend(self.schema(read, written, &below(path, name)));
            }
        }
        gaps
    }

    /// A field that the reader has no name for.
    fn unnamed(&mut self, reader: &Flat, written: &Value, path: &str) -> Vec<Gap> {
        // Which names a pattern lets through is not looked into.
        if patterns(reader).next().is_some() {
            let why = "it is written, and only names of a pattern are read";
            return vec![gap(path, why.to_owned())];
        }
        if is_closed(reader) {
            let why = "it is written, and unknown fields are refused";
            return vec![gap(path, why.to_owned())];
        }
        match reader.get("additionalProperties") {
            Some(read) => self.schema(read, written, path),
            None => Vec::new(),
        }
    }
}

fn gap(path: &str, why: String) -> Gap {
    Gap {
        path: path.to_owned(),
        why,
    }
}

/// The path of a field.
pub(super) fn below(path: &str, name: &str) -> String {
    match path {
        "" => name.to_owned(),
        path => format!("{path}.{name}"),
    }
}

/// Maps whose keys are of a certain form, such as numbers.
fn patterns(schema: &Flat) -> impl Iterator<Item = (&String, &Value)> {
    let patterns = schema.get("patternProperties").and_then(Value::as_object);
    patterns.into_iter().flatten()
}

/// Whether values of the one type can be read as the other.
fn takes(read: &str, written: &str) -> bool {
    read == written || (read, written) == ("number", "integer")
}

/// Why a value that may be written is not read.
fn refused(reader: &Flat, value: &Value) -> Option<String> {
    let shown = text(value);
    if let Some(read) = values(reader) {
        let known = read.contains(&value);
        return (!known).then(|| format!("`{shown}` may be written, and is not read"));
    }
    if let Some(read) = type_of(reader).filter(|read| !is_of(value, read)) {
        return Some(format!("`{shown}` is written, and {read} is read"));
    }
    let one = Flat::from_iter([("const".to_owned(), value.clone())]);
    bounds(reader, &bounds_of(&one, value), "")
        .into_iter()
        .chain(same(reader, &one, ""))
        .next()
        .map(|gap| gap.why)
}

/// The bounds that a single value keeps.
fn bounds_of(schema: &Flat, value: &Value) -> Flat {
    let mut bounds = schema.clone();
    let mut within = |least: &str, most: &str, size: Value| {
        bounds.insert(least.to_owned(), size.clone());
        bounds.insert(most.to_owned(), size);
    };
    match value {
        Value::Number(_) => within("minimum", "maximum", value.clone()),
        Value::String(text) => within("minLength", "maxLength", text.chars().count().into()),
        Value::Array(items) => within("minItems", "maxItems", items.len().into()),
        _ => {}
    }
    bounds
}

/// Numbers and lengths that may be written, and are not read.
fn bounds(reader: &Flat, writer: &Flat, path: &str) -> Vec<Gap> {
    let mut gaps = Vec::new();
    let (read, written) = (Range::of(reader), Range::of(writer));
    if let Some(least) = read.least
        && written.least.is_none_or(|written| written.is_less(least))
    {
        gaps.push(gap(
            path,
            format!("less than {least} may be written, and is not read"),
        ));
    }
    if let Some(most) = read.most
        && written.most.is_none_or(|written| most.is_less(written))
    {
        gaps.push(gap(
            path,
            format!("more than {most} may be written, and is not read"),
        ));
    }
    let size = |schema: &Flat, keyword: &str| schema.get(keyword).and_then(Value::as_u64);
    for (least, most, what) in [
        ("minLength", "maxLength", "characters"),
        ("minItems", "maxItems", "items"),
        ("minProperties", "maxProperties", "entries"),
    ] {
        if let Some(read) = size(reader, least)
            && read > size(writer, least).unwrap_or(0)
        {
            let why = format!("less than {read} {what} may be written, and are not read");
            gaps.push(gap(path, why));
        }
        if let Some(read) = size(reader, most)
            && size(writer, most).is_none_or(|written| written > read)
        {
            let why = format!("more than {read} {what} may be written, and are not read");
            gaps.push(gap(path, why));
        }
    }
    gaps
}

/// The numbers that a schema lets through; without a bound, all.
struct Range {
    least: Option<Bound>,
    most: Option<Bound>,
}

/// A whole number is compared as one: a float can't tell the large ones apart.
#[derive(Clone, Copy)]
enum Bound {
    Whole(i128),
    Float(f64),
}

impl Bound {
    fn of(number: &Value) -> Option<Self> {
        let whole = number.as_i64().map(i128::from);
        let whole = whole.or_else(|| number.as_u64().map(i128::from));
        whole.map_or_else(
            || number.as_f64().map(Self::Float),
            |whole| Some(Self::Whole(whole)),
        )
    }

    fn is_less(self, other: Self) -> bool {
        match (self, other) {
            (Self::Whole(this), Self::Whole(other)) => this < other,
            (this, other) => this.float() < other.float(),
        }
    }

    fn float(self) -> f64 {
        match self {
            Self::Whole(whole) => whole as f64,
            Self::Float(float) => float,
        }
    }
}

impl fmt::Display for Bound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Whole(whole) => whole.fmt(f),
            Self::Float(float) => float.fmt(f),
        }
    }
}

impl Range {
    fn of(schema: &Flat) -> Self {
        let format = schema.get("format").and_then(Value::as_str).unwrap_or("");
        let whole = |least: i128, most: i128| (Some(Bound::Whole(least)), Some(Bound::Whole(most)));
        let (least, most) = match format {
            "int8" => whole(i8::MIN.into(), i8::MAX.into()),
            "int16" => whole(i16::MIN.into(), i16::MAX.into()),
            "int32" => whole(i32::MIN.into(), i32::MAX.into()),
            "int64" | "int" => whole(i64::MIN.into(), i64::MAX.into()),
            "int128" => whole(i128::MIN, i128::MAX),
            "uint8" => whole(0, u8::MAX.into()),
            "uint16" => whole(0, u16::MAX.into()),
            "uint32" => whole(0, u32::MAX.into()),
            "uint64" | "uint" => whole(0, u64::MAX.into()),
            "uint128" => (Some(Bound::Whole(0)), Some(Bound::Float(u128::MAX as f64))),
            "float" => (
                Some(Bound::Float(f32::MIN.into())),
                Some(Bound::Float(f32::MAX.into())),
            ),
            _ => (None, None),
        };
        let told = |keyword: &str| schema.get(keyword).and_then(Bound::of);
        let narrower =
            |told: Option<Bound>, known: Option<Bound>, is_narrower: fn(Bound, Bound) -> bool| {
                match (told, known) {
                    (Some(told), Some(known)) if is_narrower(known, told) => Some(known),
                    (told, known) => told.or(known),
                }
            };
        Self {
            least: narrower(told("minimum"), least, |known, told| told.is_less(known)),
            most: narrower(told("maximum"), most, |known, told| known.is_less(told)),
        }
    }
}

/// Keywords that say nothing of what is written and read.
const WORDS: &[&str] = &[
    "$comment",
    "$defs",
    "$id",
    "$schema",
    "default",
    "deprecated",
    "description",
    "examples",
    "readOnly",
    "title",
    "writeOnly",
    // serde reads a set from a list in which an item stands twice.
    "uniqueItems",
];

/// Keywords that are looked into one by one.
const KNOWN: &[&str] = &[
    "additionalProperties",
    "const",
    "enum",
    "items",
    "maxItems",
    "maxLength",
    "maxProperties",
    "maximum",
    "minItems",
    "minLength",
    "minProperties",
    "minimum",
    "patternProperties",
    "prefixItems",
    "properties",
    "required",
    "type",
    "unevaluatedProperties",
];

/// Whether a keyword only tells something to people.
pub(super) fn is_word(keyword: &str) -> bool {
    WORDS.contains(&keyword) || keyword.starts_with("x-")
}

/// What the reader asks for and only an equal writer is known to keep.
fn same(reader: &Flat, writer: &Flat, path: &str) -> Vec<Gap> {
    let asked = reader.iter().filter(|(keyword, asked)| {
        !KNOWN.contains(&keyword.as_str())
            && !is_word(keyword)
            && writer.get(*keyword) != Some(asked)
    });
    asked
        .filter_map(|(keyword, asked)| {
            let asked = text(asked);
            let why = match keyword.as_str() {
                // Of numbers; what they let through is a matter of bounds.
                "format" if type_of(reader) != Some("string") => return None,
                "format" => match writer.get("format") {
                    Some(written) => format!("{} is written, and {asked} is read", text(written)),
                    None => format!("any string may be written, and only {asked} is read"),
                },
                "pattern" => format!("only what matches {asked} is read, and other may be written"),
                other => format!(
                    "whether all that is written can be read is not known: {other} is {asked}"
                ),
            };
            Some(gap(path, why))
        })
        .collect()
}
