--- Pairs the equal nodes of two searches in a temporary table: there may be millions.

local json = require "ponder.json"

-- `above` is the parent's id in A.
local TWINS = [[
PRAGMA query_only = OFF; -- for temporary tables: the file is open read-only
PRAGMA temp.cache_size = -8192;
CREATE TEMP TABLE IF NOT EXISTS twins (place INTEGER PRIMARY KEY, above, text, a, a_score, a_best,
    b, b_score, b_best DEFAULT 0);
CREATE INDEX IF NOT EXISTS temp.twins_by_text ON twins (above, text, b);
CREATE INDEX IF NOT EXISTS temp.twins_by_b ON twins (b);
SAVEPOINT twins;
DELETE FROM twins;]]
local FILL = [[
INSERT INTO twins (above, text, a, a_score, a_best) SELECT
    (SELECT id FROM nodes WHERE run = ?1 AND search = ?2 AND id = node.parent), text, id, score,
    coalesce(best, 0) FROM nodes AS node WHERE run = ?1 AND search = ?2]]
local FREE = "SELECT place FROM twins WHERE above IS ? AND text IS ? AND b IS NULL "
    .. "ORDER BY place LIMIT 1"
local PAIR = "UPDATE twins SET b = ?, b_score = ?, b_best = ? WHERE place = ?"

-- The id in A of a parent in B; nil: the node of B has no parent; false: its parent is not in A.
local function above_in_a(db, log_b, search, parent)
    local twin = parent ~= nil and db:row("SELECT a FROM twins WHERE b = ?", parent)
    if not twin and parent ~= nil and log_b:node(search, parent) then
        return false
    end
    return twin or nil
end

-- Pairs nodes of B with those of A. Returns the first nodes that only B has, their number, and
-- whether any is on the best path.
local function pair_nodes(db, log_b, search, most)
    local only, count, has_best = json.array {}, 0, false
    local parent, above = nil, nil
    for node in log_b:nodes(search) do
        if node.parent ~= parent then
            parent, above = node.parent, above_in_a(db, log_b, search, node.parent)
        end
        local place = above ~= false and db:row(FREE, above, node.text)
        if place then
            assert(db:execute(PAIR, node.id, node.score, node.best or 0, place))
        else
            count, has_best = count + 1, has_best or node.best == 1
            only[#only + 1] = count <= most and { id = node.id, score = node.score,
                text = node.text, best = node.best == 1 } or nil
        end
    end
    return only, count, has_best
end

-- The first rows of twins that match a condition, and their number.
local function twins_where(db, columns, condition, most)
    local list = json.array {}
    for row in db:columns(("SELECT %s FROM twins WHERE %s ORDER BY place LIMIT %d"):format(columns,
        condition, most)) do
        list[#list + 1] = row
    end
    return list, (db:row("SELECT count(*) FROM twins WHERE " .. condition))
end

local function pairs_of(db)
    local list = json.array {}
    for a, b in db:rows "SELECT a, b FROM twins WHERE b IS NOT NULL ORDER BY place" do
        list[#list + 1] = json.array { a, b }
    end
    return list
end

---@class ponder.log.Twins of the searches A and B
---@field a_nodes integer
---@field only_a table[] the first nodes that only A has: {id, score, text, best}
---@field only_a_count integer
---@field only_b table[]
---@field only_b_count integer
---@field scored table[] the first pairs with different scores: {a, b, text, a_score, b_score}
---@field scored_count integer
---@field same_path boolean whether the best paths are equal
---@field pairs table[]? {id in A, id in B}

---@param db ponder.store.Store the log of A
---@param a {log: ponder.log.Reader, search: integer, sql_order: string}
---@param b {log: ponder.log.Reader, search: integer}
---@param opts {most: integer, pairs: boolean?}
---@return ponder.log.Twins
return function(db, a, b, opts)
    assert(db:script(TWINS))
    local found = { a_nodes = assert(db:execute(FILL .. a.sql_order, a.log.number, a.search)) }
    local b_has_best
    found.only_b, found.only_b_count, b_has_best = pair_nodes(db, b.log, b.search, opts.most)
    found.only_a, found.only_a_count = twins_where(db,
        "a AS id, a_score AS score, text, a_best AS best", "b IS NULL", opts.most)
    for _, node in ipairs(found.only_a) do
        node.best = node.best == 1
    end
    found.scored, found.scored_count = twins_where(db, "a, b, text, a_score, b_score",
        "b IS NOT NULL AND a_score IS NOT b_score", opts.most)
    found.same_path = not b_has_best
        and db:row "SELECT 1 FROM twins WHERE a_best <> b_best LIMIT 1" == nil
    found.pairs = opts.pairs and pairs_of(db) or nil
    assert(db:script "RELEASE twins")
    return found
end
