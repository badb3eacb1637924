//! Programs a newcomer runs; each one is a tested promise. See the files beside this folder.
