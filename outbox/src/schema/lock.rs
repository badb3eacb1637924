//! The test that each message brings: type and file agree, and yesterday's payloads can still be read.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use super::{Change, Schema, gaps::gaps};
use crate::{Message, decode::decode};

/// What makes the test write down what it finds.
const ACCEPT: &str = "OUTBOX_SCHEMA";

/// Fails unless the message's schema is the one of its file, and each sample beside it can be read.
///
/// # Panics
///
/// With what changed and what to do about it.
#[track_caller]
pub fn check<M: Message>(crate_folder: &str) {
    let accept = match std::env::var(ACCEPT).as_deref() {
        Ok("accept") => true,
        Err(_) | Ok("") => false,
        Ok(other) => panic!("{ACCEPT} is `{other}`; the only value it takes is `accept`"),
    };
    let Some(schema) = Schema::of::<M>() else {
        return;
    };
    if let Err(text) = Lock::of(&schema, crate_folder, accept).check::<M>(&schema) {
        panic!("{text}");
    }
}

/// The folder of one topic.
struct Lock {
    folder: PathBuf,
    /// From the crate's own folder, for texts.
    shown: String,
    accept: bool,
}

const COMMAND: &str = "OUTBOX_SCHEMA=accept cargo test";

impl Lock {
    fn of(schema: &Schema, crate_folder: &str, accept: bool) -> Self {
        let shown = format!("schemas/{}", schema.topic());
        Self {
            folder: Path::new(crate_folder).join(&shown),
            shown,
            accept,
        }
    }

    fn check<M: Message>(&self, schema: &Schema) -> Result<(), String> {
        Self::read_back(schema)?;
        self.hold(schema)?;
        self.made::<M>(schema)?;
        let mut version = Some(schema.version());
        while let Some(this) = version {
            self.golden::<M>(this)?;
            version = this.checked_sub(1).filter(|earlier| {
                crate::version::Lineage::of::<M>()
                    .path_of(*earlier)
                    .is_some()
            });
        }
        Ok(())
    }

    /// Whether the message can be made of what it is written as; serde's attributes can tell the two apart.
    fn read_back(schema: &Schema) -> Result<(), String> {
        let gaps = gaps(schema.reads(), schema.writes());
        if gaps.is_empty() {
            return Ok(());
        }
        let told: Vec<_> = gaps
            .iter()
            .map(|gap| format!("  `{}`: {}\n", gap.path, gap.why))
            .collect();
        Err(format!(
            "message `{}` ({schema}) can't be read as it is written; is there a default missing, or a name that serde reads \
             and writes in different ways?\n{}",
            schema.title(),
            told.concat()
        ))
    }

    /// Holds the type against its file.
    fn hold(&self, schema: &Schema) -> Result<(), String> {
        let file = format!("v{}.json", schema.version());
        let title = schema.title();
        let Some(text) = self.read(&file)? else {
            if self.accept {
                return self.write(&file, &schema.to_json());
            }
            return Err(format!(
                "message `{title}` ({schema}) has no schema yet: {} is missing; to write it and its sample, run \
                 `{COMMAND}`, and commit them",
                self.at(&file)
            ));
        };
        let older = Schema::from_json(&text)
            .map_err(|error| format!("{} can't be read: {error}", self.at(&file)))?;
        if (older.topic(), older.version()) != (schema.topic(), schema.version()) {
            return Err(format!(
                "{} is the schema of {older}, not of {schema}: it was moved or copied there",
                self.at(&file)
            ));
        }
        if older == *schema {
            return Ok(());
        }
        let mut changes = older.changes(schema);
        if changes.is_empty() {
            changes.push(Change::of_words());
        }
        let told: Vec<_> = changes
            .iter()
            .map(|change| format!("  {change}\n"))
            .collect();
        let told = format!(
            "message `{title}` ({schema}) is not what {} says:\n{}",
            self.at(&file),
            told.concat()
        );
        if changes.iter().any(Change::is_breaking) {
            let (next, version) = (schema.version() + 1, schema.version());
            return Err(format!(
                "{told}\nThis can't be accepted at version {version}. Keep the type as it was, under a name such as \
                 `{title}V{version}`, and write the new one with\n    #[outbox::message(topic = \"{}\", version = {next}, \
                 from = {title}V{version})]\n    impl From<{title}V{version}> for {title} {{ … }}\n\
                 If no message of version {version} was ever published, delete its two files and run `{COMMAND}`",
                schema.topic(),
            ));
        }
        if self.accept {
            return self.write(&file, &schema.to_json());
        }
        Err(format!(
            "{told}\nTo accept this, run `{COMMAND}`, and commit the file"
        ))
    }

    /// Makes a sample of the newest version where there is none.
    fn made<M: Message>(&self, schema: &Schema) -> Result<(), String> {
        let file = sample(schema.version());
        if self.read(&file)?.is_some() {
            return Ok(());
        }
        if !self.accept {
            return Err(format!(
                "message `{}` ({schema}) has no sample: {} is missing; to have one made up, run `{COMMAND}`, or write a \
                 real payload there, and commit it",
                schema.title(),
                self.at(&file)
            ));
        }
        let mut text = String::new();
        super::write(&mut text, &schema.sample(), 0);
        text.push('\n');
        if let Err(why) = decode::<M>(M::VERSION, &text) {
            return Err(format!(
                "no sample of `{}` ({schema}) can be made up from its schema: {why}; write one by hand, into {}",
                schema.title(),
                self.at(&file)
            ));
        }
        self.write(&file, &text)
    }

    /// Reads a sample with today's code.
    fn golden<M: Message>(&self, version: u32) -> Result<(), String> {
        let file = sample(version);
        // The message of an earlier version has a test of its own, which asks for its sample.
        let Some(text) = self.read(&file)? else {
            return Ok(());
        };
        match decode::<M>(version, &text) {
            Ok(_) => Ok(()),
            Err(why) => Err(format!(
                "{}, a payload of version {version}, can no longer be read as `{}`: {why}",
                self.at(&file),
                M::PATH
            )),
        }
    }

    fn at(&self, file: &str) -> String {
        format!("{}/{file}", self.shown)
    }

    fn read(&self, file: &str) -> Result<Option<String>, String> {
        match fs::read_to_string(self.folder.join(file)) {
            Ok(text) => Ok(Some(text)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(format!("{} can't be read: {error}", self.at(file))),
        }
    }

    fn write(&self, file: &str, text: &str) -> Result<(), String> {
        let written =
            fs::create_dir_all(&self.folder).and_then(|()| fs::write(self.folder.join(file), text));
        written.map_err(|error| format!("{} can't be written: {error}", self.at(file)))?;
        eprintln!("wrote {}", self.at(file));
        Ok(())
    }
}

fn sample(version: u32) -> String {
    format!("v{version}.sample.json")
}
