--- The log of a server keeps its newest requests: the oldest ended ones are deleted, a tenth of the
--- limit at a time, and their space in the file is reused.

local host = require "ponder.core.host"
local schema = require "ponder.log.schema"

local rotate = {}

local SETTLED_S = 1 -- this long after its end, all rows of a run are written

-- The runs to delete: requests with their inner runs, and earlier starts of the server of which no
-- request is left.
local OLD = [[(WITH RECURSIVE starts(id) AS (
    SELECT id FROM runs
        WHERE parent IS NULL AND command = (SELECT command FROM runs WHERE id = ?1)),
    old(id) AS (
    SELECT id FROM runs WHERE parent IN starts AND (ended_at < ?3 OR status = 'killed') AND id <=
        (SELECT id FROM runs WHERE parent IN starts ORDER BY id DESC LIMIT 1 OFFSET ?2)
    UNION ALL SELECT runs.id FROM runs JOIN old ON runs.parent = old.id)
    SELECT id FROM old UNION ALL SELECT id FROM starts
        WHERE id <> ?1 AND NOT EXISTS (SELECT 1 FROM runs WHERE parent = starts.id))]]

local LAST_SEQ = "(SELECT max(seq) FROM tape WHERE run IN " .. OLD .. ")"

local function delete_old(rows, keep)
    local values = { rows.run, keep, host.time() - SETTLED_S }
    for _, name in ipairs { "tape", "readings" } do -- the server's own
        rows:write(("DELETE FROM %s WHERE run = ?1 AND seq <= %s"):format(name, LAST_SEQ),
            table.unpack(values))
    end
    for i = #schema.TABLES, 1, -1 do -- runs, which the others refer to, last
        local name = schema.TABLES[i]
        rows:write(("DELETE FROM %s WHERE %s IN %s"):format(name, name == "runs" and "id" or "run",
            OLD), table.unpack(values))
    end
end

---Counts the end of a request; deletes old ones when enough have ended.
---@param root ponder.log.Session
function rotate.note_end(root)
    local keep = root.run.opts.max_runs
    if not keep or not root.recorder then
        return
    end
    root.ended_within = (root.ended_within or 0) + 1
    if root.ended_within > keep // 10 then
        root.ended_within = 0
        delete_old(root.recorder, keep)
    end
end

return rotate
