-- Takes over an outbox table written by hand: "my_outbox" (id uuid, topic, payload, created_at,
-- published_at). Put its name in place of my_outbox, stop its relay, and run this in one transaction,
-- after the outbox's own migrations. It can be run again.
--
-- Programs that still write to the old table may go on: what they write is handed over at once. When
-- none is left, drop the trigger, its function and the table.

CREATE OR REPLACE FUNCTION "public"."my_outbox_handed_over"() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO "public"."outbox" ("id", "topic", "payload", "created_at")
    VALUES (NEW.id, NEW.topic, NEW.payload::json, NEW.created_at);
    NEW.published_at := clock_timestamp();
    RETURN NEW;
END
$$;

-- Locks the old table against writers, so that nothing slips in between the trigger and the copy.
CREATE OR REPLACE TRIGGER "my_outbox_handed_over" BEFORE INSERT ON "my_outbox"
    FOR EACH ROW WHEN (NEW.published_at IS NULL)
    EXECUTE FUNCTION "public"."my_outbox_handed_over"();

-- What has waited keeps its id, by which handlers know it, and its place in time.
INSERT INTO "public"."outbox" ("id", "topic", "payload", "created_at", "available_at")
SELECT id, topic, payload::json, created_at, created_at
FROM "my_outbox"
WHERE published_at IS NULL
ON CONFLICT DO NOTHING;

UPDATE "my_outbox" SET published_at = clock_timestamp() WHERE published_at IS NULL;
