//! The account on paper.

use std::time::Duration;

use crate::{
    Last,
    account::Account,
    faults::{Fault, Kind},
    memory::Samples,
};

/// How many cases of a failure are shown.
const SHOWN: usize = 10;

/// How many processes are shown, the longest-lived first.
const PROCESSES: usize = 4;

pub(crate) fn print(account: &Account, last: &Last, faults: &[Fault], restarted: usize) {
    println!("published and committed        {}", account.committed);
    println!("published and rolled back      {}", account.rolled_back);
    println!("delivered                      {}", account.delivered);
    println!("lost                           {}", account.lost.len());
    println!("handled though rolled back     {}", account.ghosts.len());
    let explained: usize = account.duplicates.values().sum();
    println!("handled again, explained       {explained}");
    println!(
        "handled again, unexplained     {}",
        account.unexplained.len()
    );
    println!("dead letters                   {}", last.dead);
    println!("left in the table              {}", last.left);
    println!("relays restarted               {restarted}");
    println!("relays ended by themselves     {}", last.ended);
    println!(
        "drained, after the last fault  {:.1} s",
        last.drained.as_secs_f64()
    );
    for id in account.lost.iter().take(SHOWN) {
        println!("LOST {id}");
    }
    for id in account.ghosts.iter().take(SHOWN) {
        println!("HANDLED THOUGH ROLLED BACK {id}");
    }
    for (earlier, later) in account.unexplained.iter().take(SHOWN) {
        println!("UNEXPLAINED {later:?} after {earlier:?}");
    }

    println!(
        "\n{:<24}{:>8}{:>16}{:>14}{:>10}",
        "fault", "times", "handled again", "recovery (s)", "longest"
    );
    for kind in Kind::ALL {
        let times = faults.iter().filter(|fault| fault.kind == kind).count();
        let duplicates = account.duplicates.get(&kind).copied().unwrap_or_default();
        let recoveries = account.recoveries.get(&kind).map_or(&[][..], Vec::as_slice);
        println!(
            "{kind:<24}{times:>8}{duplicates:>16}{:>14}{:>10}",
            seconds(recoveries.get(recoveries.len() / 2)),
            seconds(recoveries.last()),
        );
    }
}

/// What went wrong and when, for who looks for the cause of a failure.
pub(crate) fn print_course(faults: &[Fault]) {
    for fault in faults {
        println!("{fault:?}");
    }
}

fn seconds(millis: Option<&u64>) -> String {
    millis.map_or("-".to_owned(), |millis| {
        let seconds = Duration::from_millis(*millis).as_secs_f64();
        format!("{seconds:.2}")
    })
}

pub(crate) fn print_memory(samples: &Samples, steady: u32) {
    println!(
        "\n{:<26}{:>8}{:>24}{:>24}",
        "resident memory (MiB)", "life (s)", "first quarter of it", "last quarter"
    );
    let mut longest: Vec<_> = samples.iter().collect();
    longest.sort_by_key(|(_, samples)| std::cmp::Reverse(samples.len()));
    for (process, samples) in longest.into_iter().take(PROCESSES) {
        let quarter = (samples.len() / 4).max(1);
        let name = match *process == steady {
            true => format!("relay {process}, never killed"),
            false => format!("relay {process}"),
        };
        println!(
            "{name:<26}{:>8}{:>24}{:>24}",
            samples.len(),
            spread(&samples[..quarter]),
            spread(&samples[samples.len() - quarter..]),
        );
    }
    println!("each as minimum / median / maximum\n");
}

fn spread(kib: &[u64]) -> String {
    let mut sorted = kib.to_vec();
    sorted.sort_unstable();
    let mib = |kib: Option<&u64>| {
        let kib = u32::try_from(kib.copied().unwrap_or_default()).unwrap_or(u32::MAX);
        f64::from(kib) / 1024.0
    };
    format!(
        "{:.1} / {:.1} / {:.1}",
        mib(sorted.first()),
        mib(sorted.get(sorted.len() / 2)),
        mib(sorted.last()),
    )
}
