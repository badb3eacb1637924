//! What is left of the speed where no vacuum clears up.

use std::{collections::BTreeMap, error::Error};

use outbox_benches::table::{Figures, number, print};

use crate::chapters::Play;

impl Play<'_> {
    pub(crate) async fn pressure(&mut self) -> Result<(), Box<dyn Error>> {
        const NAMES: [&str; 4] = ["by-hand", "outbox", "pgmq", "graphile"];
        const DRAINS: usize = 10;
        const MESSAGES: u64 = 20_000;
        const LONG: u64 = 100_000;
        let mut clean: BTreeMap<&str, Figures> = BTreeMap::new();
        let mut clean_long: BTreeMap<&str, Figures> = BTreeMap::new();
        let mut held_long: BTreeMap<&str, Figures> = BTreeMap::new();
        let mut cases: BTreeMap<(&str, &str), Figures> = BTreeMap::new();
        for _ in 0..self.rounds {
            for name in NAMES {
                let drained = self.fresh(name, MESSAGES, "").await?;
                clean.entry(name).or_default().push(drained.rate);
                let drained = self.fresh(name, LONG, "").await?;
                clean_long.entry(name).or_default().push(drained.rate);
                for case in ["without vacuum", "with a snapshot held"] {
                    let mut scene = self.scene(name).await?;
                    self.fill(&mut scene, name, MESSAGES).await?;
                    self.stage.settle(&mut scene).await?;
                    let tables = "DO $$ DECLARE name text; BEGIN FOR name IN SELECT oid::regclass FROM pg_class \
                        WHERE relkind = 'r' AND relnamespace::regnamespace::text !~ '^(pg_|information)' LOOP \
                        EXECUTE 'ALTER TABLE ' || name || ' SET (autovacuum_enabled = false)'; END LOOP; END $$";
                    scene.execute(tables).await?;
                    if case == "with a snapshot held" {
                        scene
                            .execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
                            .await?;
                        scene.execute("SELECT count(*) FROM pg_class").await?;
                    }
                    let mut last = f64::NAN;
                    for n in 0..DRAINS {
                        if n > 0 {
                            self.fill(&mut scene, name, MESSAGES).await?;
                        }
                        last = self.drained(&scene, name, MESSAGES).await?.rate;
                    }
                    cases.entry((name, case)).or_default().push(last);
                    if case == "with a snapshot held" {
                        self.fill(&mut scene, name, LONG).await?;
                        let drained = self.drained(&scene, name, LONG).await?;
                        held_long.entry(name).or_default().push(drained.rate);
                    }
                }
            }
        }
        let rows: Vec<_> = NAMES
            .iter()
            .map(|name| {
                let of = |case| cases.get(&(*name, case)).cloned().unwrap_or_default();
                let clean = clean.get(name).cloned().unwrap_or_default();
                let (tired, held) = (of("without vacuum"), of("with a snapshot held"));
                vec![
                    (*name).to_owned(),
                    clean.spread(0),
                    tired.spread(0),
                    number(tired.median() / clean.median(), 2),
                    held.spread(0),
                    number(held.median() / clean.median(), 2),
                ]
            })
            .collect();
        print(
            "Pressure: the tenth drain of 20,000 in a row",
            &[
                "",
                "clean, messages/s",
                "without vacuum",
                "× clean",
                "with a snapshot held",
                "× clean",
            ],
            &rows,
        );
        let rows: Vec<_> = NAMES
            .iter()
            .filter_map(|name| {
                let (clean, held) = (clean_long.get(name)?, held_long.get(name)?);
                Some(vec![
                    (*name).to_owned(),
                    clean.spread(0),
                    held.spread(0),
                    number(held.median() / clean.median(), 2),
                ])
            })
            .collect();
        print(
            "Pressure at load: the drain of 100,000 after those ten",
            &["", "clean, messages/s", "with the snapshot held", "× clean"],
            &rows,
        );
        Ok(())
    }
}
