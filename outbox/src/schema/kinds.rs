//! What kind of JSON a field's type is, told by a trait while a program compiles.

use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet, HashMap, HashSet, LinkedList, VecDeque},
    marker::PhantomData,
    rc::Rc,
    sync::Arc,
};

use uuid::Uuid;

use crate::text::Text;

const NULL: u8 = 1;
const BOOLEAN: u8 = 2;
const INTEGER: u8 = 4;
const FRACTION: u8 = 8;
const STRING: u8 = 16;
const ARRAY: u8 = 32;
const OBJECT: u8 = 64;
const ANY: u8 = 0x7f;

/// A type of which it is known what kinds of JSON it is written as and read from.
pub trait Json {
    /// The kinds, added up.
    const KINDS: u8;
}

macro_rules! json {
    ($($kinds:expr => $($type:ty),*;)*) => {$($(
        impl Json for $type {
            const KINDS: u8 = $kinds;
        }
    )*)*};
}

json! {
    NULL => ();
    BOOLEAN => bool;
    INTEGER => i8, i16, i32, i64, i128, isize, u8, u16, u32, u64, u128, usize;
    INTEGER | FRACTION => f32, f64;
    STRING => str, String, char, Uuid;
}

impl<T: Json> Json for Option<T> {
    const KINDS: u8 = NULL | T::KINDS;
}

impl<T: Json + ?Sized> Json for Box<T> {
    const KINDS: u8 = T::KINDS;
}

impl<T: Json + ?Sized> Json for Rc<T> {
    const KINDS: u8 = T::KINDS;
}

impl<T: Json + ?Sized> Json for Arc<T> {
    const KINDS: u8 = T::KINDS;
}

impl<T: Json + ToOwned + ?Sized> Json for Cow<'_, T> {
    const KINDS: u8 = T::KINDS;
}

macro_rules! lists {
    ($($type:ident),*) => {$(
        impl<T> Json for $type<T> {
            const KINDS: u8 = ARRAY;
        }
    )*};
}

lists!(Vec, VecDeque, LinkedList, BTreeSet);

impl<T> Json for [T] {
    const KINDS: u8 = ARRAY;
}

impl<T, S> Json for HashSet<T, S> {
    const KINDS: u8 = ARRAY;
}

impl<K, V> Json for BTreeMap<K, V> {
    const KINDS: u8 = OBJECT;
}

impl<K, V, S> Json for HashMap<K, V, S> {
    const KINDS: u8 = OBJECT;
}

/// Has the kinds of `T` as `KINDS`: its own if they are known, or else those of [`UnknownKinds`].
#[derive(Debug)]
pub struct Probe<T>(PhantomData<T>);

impl<T: Json> Probe<T> {
    /// The kinds of `T`.
    pub const KINDS: u8 = T::KINDS;
}

/// What a [`Probe`] has of a type that is not known.
pub trait UnknownKinds {
    /// Any.
    const KINDS: u8 = ANY;
}

impl<T> UnknownKinds for Probe<T> {}

/// Tells by `IS_OPTION` whether `T` is an `Option`, of whatever.
#[derive(Debug)]
pub struct Optional<T>(PhantomData<T>);

impl<T> Optional<Option<T>> {
    /// It is.
    pub const IS_OPTION: bool = true;
}

/// What an [`Optional`] has of another type.
pub trait UnknownOption {
    /// It is none.
    const IS_OPTION: bool = false;
}

impl<T> UnknownOption for Optional<T> {}

/// A field of a message whose schema another team owns.
#[derive(Debug)]
pub struct Field {
    /// Its name in the schema.
    pub name: &'static str,
    /// The message: `orders.placed v1`.
    pub of: &'static str,
    /// The kinds of what is published.
    pub written: u8,
    /// It may be left out, and no default stands in for it.
    pub may_be_absent: bool,
    /// The kinds of what is read.
    pub read: u8,
    /// It has to be there.
    pub wanted: bool,
    /// Whether the program reads the message.
    pub reads: bool,
    /// Whether the program publishes it.
    pub publishes: bool,
    /// The kinds of the field's type.
    pub kinds: u8,
    /// Whether its type is an `Option`.
    pub is_option: bool,
}

/// Panics unless the field's type agrees with the schema.
#[track_caller]
pub const fn agrees(field: Field) {
    let text = Text::new()
        .and("`")
        .and(field.name)
        .and("` of ")
        .and(field.of);
    let known = field.kinds != ANY;
    if field.reads && !field.is_option {
        if known && field.written & NULL != 0 && field.written != ANY && field.kinds & NULL == 0 {
            text.and(" may be null; make its type an `Option`").panic();
        }
        if field.may_be_absent {
            text.and(" may be left out; make its type an `Option`, or give it `#[serde(default)]`")
                .panic();
        }
    }
    if field.publishes && field.is_option && field.wanted && field.read & NULL == 0 {
        text.and(" has to be there and is never null; make its type no `Option`")
            .panic();
    }
    let bare = !NULL;
    let (kinds, written, read) = (field.kinds & bare, field.written & bare, field.read & bare);
    if known && field.reads && written != ANY & bare && written & !kinds != 0 {
        text.and(" is ")
            .and_kinds(written)
            .and(", and this type is read from ")
            .and_kinds(kinds)
            .panic();
    }
    if known && field.publishes && read != ANY & bare && kinds & !read != 0 {
        text.and(" is ")
            .and_kinds(read)
            .and(", and this type is written as ")
            .and_kinds(kinds)
            .panic();
    }
}

impl Text {
    const fn and_kinds(self, kinds: u8) -> Self {
        const NAMES: [(u8, &str); 7] = [
            (NULL, "null"),
            (BOOLEAN, "a boolean"),
            (INTEGER, "a whole number"),
            (FRACTION, "a fraction"),
            (STRING, "a string"),
            (ARRAY, "an array"),
            (OBJECT, "an object"),
        ];
        let (mut text, mut at, mut first) = (self, 0, true);
        while at < NAMES.len() {
            let (kind, name) = NAMES[at];
            if kinds & kind != 0 {
                text = text.and(if first { "" } else { " or " }).and(name);
                first = false;
            }
            at += 1;
        }
        text
    }
}
