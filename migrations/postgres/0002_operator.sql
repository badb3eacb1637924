-- What an operator works with: topics that are paused, what was discarded and why, and which relay
-- purges; and the indexes by which delivered and dead rows are counted, listed and purged.

-- Rows enter these when they settle, never before: publishing and claiming don't touch them. A row that
-- was settled by hand may lack the time.
DROP INDEX "public"."outbox_dead";

CREATE INDEX "outbox_dead" ON "public"."outbox" ((coalesce("settled_at", "created_at")), "id")
    WHERE "state" = 'dead';

CREATE INDEX "outbox_dead_route" ON "public"."outbox" ("topic", "version", (coalesce("settled_at", "created_at")), "id")
    WHERE "state" = 'dead';

CREATE INDEX "outbox_delivered" ON "public"."outbox" ("topic", "version", (coalesce("settled_at", "created_at")), "id")
    WHERE "state" = 'delivered';

-- Topics from which no relay claims anything.
CREATE TABLE "public"."outbox_paused" (
    "topic" text PRIMARY KEY,
    "reason" text,
    "paused_at" timestamptz NOT NULL DEFAULT clock_timestamp()
);

-- Work that one relay at a time does: who has it, and until when.
CREATE TABLE "public"."outbox_duties" (
    "name" text PRIMARY KEY,
    "holder" uuid NOT NULL,
    "held_until" timestamptz NOT NULL
);

-- Dead letters that somebody decided not to deliver: all but their payload and headers.
CREATE TABLE "public"."outbox_discarded" (
    "id" uuid PRIMARY KEY,
    "topic" text NOT NULL,
    "version" integer NOT NULL,
    "key" text,
    "attempts" integer NOT NULL,
    "redrives" integer NOT NULL,
    "errors" jsonb NOT NULL,
    "reason" text NOT NULL,
    "created_at" timestamptz NOT NULL,
    "died_at" timestamptz NOT NULL,
    "discarded_at" timestamptz NOT NULL DEFAULT clock_timestamp()
);

CREATE INDEX "outbox_discarded_at" ON "public"."outbox_discarded" ("discarded_at", "id");
