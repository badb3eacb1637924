//! Tests of the feature `schema`, in a package of their own.
