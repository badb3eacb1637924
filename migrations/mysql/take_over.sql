-- Takes over an outbox table written by hand: `my_outbox` (id, topic, payload, created_at, published_at), with ids as
-- BINARY(16) and times in UTC. Put its name in place of my_outbox, stop its relay, and run this after the outbox's own
-- migrations. It can be run again.
--
-- Programs that still write to the old table may go on: what they write is handed over at once. When none is left,
-- drop the trigger and the table.

CREATE TRIGGER IF NOT EXISTS `my_outbox_handed_over` BEFORE INSERT ON `my_outbox` FOR EACH ROW
BEGIN
    IF NEW.published_at IS NULL THEN
        INSERT INTO `outbox` (`id`, `topic`, `payload`, `created_at`)
        VALUES (NEW.id, NEW.topic, NEW.payload, NEW.created_at);
        SET NEW.published_at = UTC_TIMESTAMP(6);
    END IF;
END;

START TRANSACTION;

-- What has waited keeps its id, by which handlers know it, and its place in time.
INSERT INTO `outbox` (`id`, `topic`, `payload`, `created_at`, `available_at`)
SELECT old.id, old.topic, old.payload, old.created_at, old.created_at
FROM `my_outbox` AS old
WHERE old.published_at IS NULL AND NOT EXISTS (SELECT 1 FROM `outbox` AS o WHERE o.id = old.id)
FOR UPDATE;

UPDATE `my_outbox` SET published_at = UTC_TIMESTAMP(6) WHERE published_at IS NULL;

COMMIT;
