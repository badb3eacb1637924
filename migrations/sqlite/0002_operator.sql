-- What an operator works with: topics that are paused, what was discarded and why, and which relay
-- purges; and the indexes by which delivered and dead rows are counted, listed and purged.

-- Rows enter these when they settle, never before: publishing and claiming don't touch them. A row that
-- was settled by hand may lack the time.
DROP INDEX "main"."outbox_dead";

CREATE INDEX "main"."outbox_dead" ON "outbox" ((ifnull("settled_at", "created_at")), "id")
    WHERE "state" = 'dead';

CREATE INDEX "main"."outbox_dead_route" ON "outbox" ("topic", "version", (ifnull("settled_at", "created_at")), "id")
    WHERE "state" = 'dead';

CREATE INDEX "main"."outbox_delivered" ON "outbox" ("topic", "version", (ifnull("settled_at", "created_at")), "id")
    WHERE "state" = 'delivered';

-- Topics from which no relay claims anything.
CREATE TABLE "main"."outbox_paused" (
    "topic" TEXT PRIMARY KEY NOT NULL,
    "reason" TEXT,
    "paused_at" INTEGER NOT NULL DEFAULT (CAST(round((julianday('now') - 2440587.5) * 86400000) AS INTEGER))
) STRICT;

-- Work that one relay at a time does: who has it, and until when.
CREATE TABLE "main"."outbox_duties" (
    "name" TEXT PRIMARY KEY NOT NULL,
    "holder" TEXT NOT NULL,
    "held_until" INTEGER NOT NULL
) STRICT;

-- Dead letters that somebody decided not to deliver: all but their payload and headers.
CREATE TABLE "main"."outbox_discarded" (
    "id" TEXT PRIMARY KEY NOT NULL,
    "topic" TEXT NOT NULL,
    "version" INTEGER NOT NULL,
    "key" TEXT,
    "attempts" INTEGER NOT NULL,
    "redrives" INTEGER NOT NULL,
    "errors" TEXT NOT NULL,
    "reason" TEXT NOT NULL,
    "created_at" INTEGER NOT NULL,
    "died_at" INTEGER NOT NULL,
    "discarded_at" INTEGER NOT NULL DEFAULT (CAST(round((julianday('now') - 2440587.5) * 86400000) AS INTEGER))
) STRICT;

CREATE INDEX "main"."outbox_discarded_at" ON "outbox_discarded" ("discarded_at", "id");
