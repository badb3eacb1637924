//! The versions of a message: which ones a build reads, and how a payload of an older one becomes the newest.

use crate::{
    Message,
    decode::{Undecodable, decode},
};

/// A version of a message and, behind it, the earlier ones that this build still reads.
#[derive(Debug, Clone, Copy)]
pub struct Lineage {
    pub(crate) version: u32,
    /// The message's path; see [`Message::PATH`].
    pub(crate) path: &'static str,
    earlier: Option<&'static Lineage>,
}

impl Lineage {
    /// The lineage of `M`.
    #[must_use]
    pub const fn of<M: Message>() -> Self {
        Self {
            version: M::VERSION,
            path: M::PATH,
            earlier: M::EARLIER,
        }
    }

    /// That of a message which did not compile.
    pub(crate) const fn unknown() -> Self {
        Self {
            version: 1,
            path: "",
            earlier: None,
        }
    }

    /// The oldest version that is read. Those between it and the newest all are.
    pub(crate) const fn oldest(&self) -> u32 {
        let mut at = self;
        while let Some(earlier) = at.earlier {
            at = earlier;
        }
        at.version
    }

    /// The message of this version, by its path.
    pub(crate) const fn path_of(&self, version: u32) -> Option<&'static str> {
        let mut at = self;
        while at.version != version {
            match at.earlier {
                Some(earlier) => at = earlier,
                None => return None,
            }
        }
        Some(at.path)
    }
}

/// A message that says what its previous version was: `from = OrderPlacedV1`.
pub trait Successor: Message {
    /// The message of the previous version.
    type Earlier: Message + Upcast<Self>;

    /// What its lineage is.
    const EARLIER: &'static Lineage = &Lineage::of::<Self::Earlier>();
}

/// A message that turns into the one of the next version.
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not turn into `{M}`",
    label = "stored messages of this version could not be read",
    note = "write `impl From<{Self}> for {M}`; or, if none are stored any more, `from = none`"
)]
pub trait Upcast<M> {
    /// The same message, as the next version has it.
    fn upcast(self) -> M;
}

#[diagnostic::do_not_recommend]
impl<E, M: From<E>> Upcast<M> for E {
    fn upcast(self) -> M {
        self.into()
    }
}

/// Decodes a payload of a version before `M`'s own, and lifts it from one version to the next.
pub fn lift<M: Successor>(version: u32, payload: &str) -> Result<M, Undecodable> {
    decode::<M::Earlier>(version, payload).map(Upcast::upcast)
}
