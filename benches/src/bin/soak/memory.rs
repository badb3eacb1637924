//! How much memory each relay holds, once a second.

use std::{
    collections::BTreeMap,
    fs,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use outbox_tests::wait::secs;

/// The resident memory of each process in KiB, one sample per second of its life.
pub(crate) type Samples = BTreeMap<u32, Vec<u64>>;

#[derive(Debug, Default)]
pub(crate) struct Memory(Mutex<Watched>);

#[derive(Debug, Default)]
struct Watched {
    alive: Vec<u32>,
    samples: Samples,
}

impl Memory {
    /// Takes the samples in the background.
    pub(crate) fn watching() -> Arc<Self> {
        let memory = Arc::new(Self::default());
        let watched = Arc::downgrade(&memory);
        tokio::spawn(async move {
            let mut seconds = tokio::time::interval(secs(1));
            while let Some(memory) = watched.upgrade() {
                memory.sample();
                drop(memory);
                seconds.tick().await;
            }
        });
        memory
    }

    pub(crate) fn watch(&self, process: u32) {
        self.watched().alive.push(process);
    }

    /// The samples so far; nobody is watched any more.
    pub(crate) fn stop(&self) -> Samples {
        std::mem::take(&mut *self.watched()).samples
    }

    fn sample(&self) {
        let Watched { alive, samples } = &mut *self.watched();
        alive.retain(|process| match resident(*process) {
            Some(kib) => {
                samples.entry(*process).or_default().push(kib);
                true
            }
            None => false,
        });
    }

    fn watched(&self) -> MutexGuard<'_, Watched> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// None if the process is gone.
fn resident(process: u32) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))?;
    line.trim().strip_suffix(" kB")?.parse().ok()
}
