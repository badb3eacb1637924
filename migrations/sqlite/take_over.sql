-- Takes over an outbox table written by hand: "my_outbox" (id, topic, payload, created_at,
-- published_at), with ids that are UUIDs in lower case and times as SQLite writes them. Put its name in
-- place of my_outbox, stop its relay, and run this in one transaction, after the outbox's own migrations.
-- It can be run again.
--
-- Programs that still write to the old table may go on: what they write is handed over at once. When
-- none is left, drop the trigger and the table.

CREATE TRIGGER IF NOT EXISTS "my_outbox_handed_over" AFTER INSERT ON "my_outbox"
WHEN NEW.published_at IS NULL
BEGIN
    INSERT INTO "outbox" ("id", "topic", "payload", "created_at")
    VALUES (NEW.id, NEW.topic, NEW.payload,
        CAST(round((julianday(NEW.created_at) - 2440587.5) * 86400000) AS INTEGER));
    UPDATE "my_outbox" SET published_at = strftime('%Y-%m-%d %H:%M:%f', 'now') WHERE id = NEW.id;
END;

-- What has waited keeps its id, by which handlers know it, and its place in time.
INSERT INTO "outbox" ("id", "topic", "payload", "created_at", "available_at")
SELECT id, topic, payload,
    CAST(round((julianday(created_at) - 2440587.5) * 86400000) AS INTEGER),
    CAST(round((julianday(created_at) - 2440587.5) * 86400000) AS INTEGER)
FROM "my_outbox"
WHERE published_at IS NULL
ON CONFLICT DO NOTHING;

UPDATE "my_outbox" SET published_at = strftime('%Y-%m-%d %H:%M:%f', 'now') WHERE published_at IS NULL;
