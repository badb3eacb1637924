-- Takes over an outbox table written by hand: `my_outbox` (id, topic, payload, created_at, published_at), with ids as
-- BINARY(16) and times in UTC. Put its name in place of my_outbox, stop its relay, and run this after the outbox's own
-- migrations. It can be run again.
--
-- Programs that still write to the old table may go on: what they write is handed over at once. When none is left,
-- drop the triggers and the table.

DROP TRIGGER IF EXISTS `my_outbox_handed_over`;
DROP TRIGGER IF EXISTS `my_outbox_noted`;

CREATE TRIGGER `my_outbox_handed_over` BEFORE INSERT ON `my_outbox` FOR EACH ROW
    INSERT INTO `outbox` (`id`, `topic`, `payload`, `created_at`)
    SELECT NEW.id, NEW.topic, NEW.payload, NEW.created_at FROM DUAL WHERE NEW.published_at IS NULL;

CREATE TRIGGER `my_outbox_noted` BEFORE INSERT ON `my_outbox` FOR EACH ROW FOLLOWS `my_outbox_handed_over`
    SET NEW.published_at = IFNULL(NEW.published_at, UTC_TIMESTAMP(6));

START TRANSACTION;

-- What has waited keeps its id, by which handlers know it, and its place in time.
INSERT INTO `outbox` (`id`, `topic`, `payload`, `created_at`, `available_at`)
SELECT old.id, old.topic, old.payload, old.created_at, old.created_at
FROM `my_outbox` AS old
WHERE old.published_at IS NULL AND NOT EXISTS (SELECT 1 FROM `outbox` AS o WHERE o.id = old.id)
FOR UPDATE;

UPDATE `my_outbox` SET published_at = UTC_TIMESTAMP(6) WHERE published_at IS NULL;

COMMIT;
