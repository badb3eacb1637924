//! Tables by another name: qualified, quoted, or refused.

use outbox::Outbox;
use outbox_tests::{
    Db, Lab, each,
    lab::{TASKS, Task},
    on_every_database, relay,
    wait::{LONG, within},
};

on_every_database! {
    all: [names_that_are_no_identifiers_are_refused, two_outboxes_share_a_database],
    postgres: [odd_names_are_quoted],
    // Its sessions have a setting, which PgBouncer refuses.
    direct: [only_the_qualified_table_is_touched],
    sqlite: [a_keyword_can_name_a_table]
}

async fn names_that_are_no_identifiers_are_refused(_: Db) {
    let long = "x".repeat(51);
    let injection = "outbox; DROP TABLE accounts";
    let bad = [
        "",
        ".",
        "a.",
        ".a",
        "a.b.c",
        "with space",
        "quote\"d",
        injection,
        "1st",
        "nul\0",
        &long,
    ];
    for name in bad {
        let error = Outbox::builder().table(name).build().expect_err(name);
        assert!(error.is_config(), "{name}: {error}");
    }
    let longest = "x".repeat(50);
    for name in ["outbox", "msg.outbox", "My-App.order", "_a.b_1", &longest] {
        Outbox::builder()
            .table(name)
            .build()
            .unwrap_or_else(|error| panic!("{name}: {error}"));
    }
}

/// Migrates, publishes, delivers, and reads the statistics through this outbox.
async fn works(db: &Db, outbox: &Outbox) {
    each!(db, pool => outbox.migrate(pool).await).expect("migrates");
    each!(db, pool => outbox.check(pool).await).expect("checks");
    db.publish_to(outbox, &Task::named("elsewhere")).await;
    let stats = each!(db, pool => outbox.stats(pool).await).expect("counts");
    assert_eq!(
        stats
            .routes
            .iter()
            .map(|route| route.pending())
            .sum::<u64>(),
        1
    );
    let lab = Lab::content();
    let relay = relay!(db, TASKS, lab; outbox(outbox));
    let counts = within(LONG, relay.drain()).await.expect("drains");
    assert_eq!((counts.delivered, lab.calls().len()), (1, 1));
    each!(db, pool => outbox.dead_letters(pool).list().await).expect("lists");
}

async fn two_outboxes_share_a_database(db: Db) {
    let second = db
        .outbox_builder()
        .table(db.pick("public.second", "second", "second"))
        .build()
        .expect("a good name");
    db.publish(&Task::named("in the first")).await;
    works(&db, &second).await;
    assert_eq!(
        db.count("state = 'pending' AND attempts = 0").await,
        1,
        "the first one's message was left alone"
    );
}

async fn odd_names_are_quoted(db: Db) {
    db.execute("CREATE SCHEMA \"My-App\"").await;
    let long = format!("My-App.{}", "x".repeat(50));
    for name in [
        "My-App.order",
        "public.select",
        "public.Mixed-Case",
        "public.naïve",
        &long,
    ] {
        works(
            &db,
            &db.outbox_builder()
                .table(name)
                .build()
                .expect("a good name"),
        )
        .await;
    }
}

async fn a_keyword_can_name_a_table(db: Db) {
    let long = "x".repeat(50);
    for name in ["order", "select", "Mixed-Case", "naïve", &long] {
        works(
            &db,
            &db.outbox_builder()
                .table(name)
                .build()
                .expect("a good name"),
        )
        .await;
    }
}

async fn only_the_qualified_table_is_touched(db: Db) {
    let setup = db.empty().await;
    setup.execute("CREATE SCHEMA msg").await;
    setup
        .execute(
            "CREATE TABLE public.outbox (mine text); INSERT INTO public.outbox VALUES ('mine')",
        )
        .await;
    setup
        .execute("CREATE TABLE public.outbox_history (mine text)")
        .await;

    let bare = setup.with_settings(&[("search_path", "")]);
    works(
        &bare,
        &bare
            .outbox_builder()
            .table("msg.outbox")
            .build()
            .expect("a good name"),
    )
    .await;

    let mine = setup
        .scalar("SELECT count(*) FROM public.outbox WHERE mine = 'mine'")
        .await;
    let history = setup
        .scalar("SELECT count(*) FROM public.outbox_history")
        .await;
    assert_eq!(
        (mine, history),
        (1, 0),
        "a table of the same name in another schema is none of ours"
    );
    setup.remove().await;
}
