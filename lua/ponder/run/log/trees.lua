--- The searches and machines of a logged run: rows of `searches`, `nodes`, `edges` and `events`.
---
--- Nodes are written when a call is asked, so that a killed run leaves the tree as it was. A node
--- whose score arrives later is written twice.

local json = require "ponder.json"
local scheduler = require "ponder.run.task.scheduler"

local trees = {}

local MAX_NODES = 10000000 -- of one search; its stats count all
local NODES_A_COMMIT = 50000 -- so that a large tree does not fill the -wal

---@class ponder.log.Tree one search or machine run
---@field kind string "beam", "tot"...
---@field id integer? searches.id, once it has a row
---@field ended number? when it ended in an earlier process
---@field only_grows boolean? a node with a score does not change
---@field about {question: string?, options: table?, model: string?}
---@field count fun(): integer nodes so far
---@field node fun(i: integer): table? {id, parent, depth, score, terminal, status, text}, from 1
---@field place (fun(): any, string?)? node and purpose of the current call
---@field final (fun(): table)? {status, reason, best, score, answer, stats, path, edges}
local Tree = {}
Tree.__index = Tree

local function encode(value)
    if value == nil then
        return nil
    end
    local ok, text = pcall(json.encode, value)
    return ok and text or nil
end

---Returns the id of the tree's row; the first call writes the row.
---@return integer id
function Tree:row(tape)
    if not self.id then
        local about = self.about
        local id, began, ended = tape:next_search()
        self.id, self.ended = id, ended
        tape:write("INSERT INTO searches (run, id, kind, question, options, model, started_at) "
            .. "VALUES (?, ?, ?, ?, ?, ?, ?)", tape.id, self.id, self.kind, about.question,
            encode(about.options), about.model, began)
    end
    return self.id
end

-- Writes a node unless it is unchanged since; it is nil if the search has freed it.
local function note_node(self, tape, i, node, best)
    if not node then
        return
    end
    local now = ("%s %s"):format(node.score, node.status)
    local is_best = best and best[node.id]
    if now ~= self.written[i] or is_best then
        tape:write([[INSERT OR REPLACE INTO nodes (run, search, id, parent, depth, score,
            terminal, status, text, best) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)]], tape.id,
            self.id, node.id, node.parent, node.depth, node.score == node.score and node.score
            or nil, node.terminal, node.status, node.text, is_best)
    end
    self.written[i] = now
end

-- Whether a node, which is nil if the search has freed it, waits for its score.
local function waits(node)
    return node and not node.score and node.depth ~= 0
end

local function pass_over(self, i)
    self.scored = i
    self.written[i] = not self.only_grows and self.written[i] or nil
end

-- Writes nodes whose scores have arrived, then new nodes. Both come mostly in order: nodes after
-- the first one without a score wait for it, so that no call checks a node twice.
local function write_nodes(self, tape)
    for i = self.scored + 1, self.noted do
        local node = self.node(i)
        if waits(node) then
            break
        end
        note_node(self, tape, i, node)
        pass_over(self, i)
    end
    for i = self.noted + 1, math.min(self.count(), MAX_NODES) do
        local node = self.node(i)
        note_node(self, tape, i, node)
        self.noted = i
        if self.scored == i - 1 and not waits(node) then
            pass_over(self, i)
        end
        if i % NODES_A_COMMIT == 0 then
            tape.writer:commit()
        end
    end
end

---Returns the row, node and purpose of a call that is asked now; writes the nodes so far.
---@param asker {node: any, purpose: string?, place: (fun(): any, string?)?}
---@return integer search
---@return any node
---@return string? purpose
function Tree:asks(tape, asker)
    self:row(tape)
    write_nodes(self, tape)
    local node, purpose = asker.node, asker.purpose
    local place = asker.place or self.place
    if place and node == nil then
        node, purpose = place()
    end
    return self.id, node, purpose
end

-- The run's tape if its log has a file.
local function open_tape()
    local tape = scheduler.tape()
    return tape and tape.writer.db and tape
end

---Writes the nodes so far: before some are freed.
function Tree:note()
    local tape = open_tape()
    if tape then
        self:row(tape)
        write_nodes(self, tape)
    end
end

---Records an event of a machine or its strategy.
function Tree:event(event)
    local tape = scheduler.tape()
    if tape and not tape.writer.discards then
        tape:event(event.name, encode { measurements = event.measurements,
            metadata = event.metadata }, self:row(tape))
    end
end

---Writes the final tree.
function Tree:finish()
    local tape = open_tape()
    if self.finished or not tape then
        return
    end
    self.finished = true
    self:row(tape)
    local final, best = self.final(), {}
    for _, id in ipairs(final.path or {}) do
        best[id] = true
    end
    write_nodes(self, tape)
    if self.only_grows and self.scored > 0 then
        note_node(self, tape, 1, self.node(1), best) -- the root is passed over without a score
    end
    for i = self.only_grows and self.scored + 1 or 1, self.noted do -- before, nothing changes
        note_node(self, tape, i, self.node(i), best)
    end
    for id in pairs(self.only_grows and best or {}) do
        tape:write("UPDATE nodes SET best = 1 WHERE run = ? AND search = ? AND id = ?",
            tape.id, self.id, id)
    end
    for _, edge in ipairs(final.edges or {}) do
        tape:write("INSERT INTO edges (run, search, source, target, kind, score) "
            .. "VALUES (?, ?, ?, ?, ?, ?)", tape.id, self.id, edge.source,
            edge.target, edge.kind, edge.score)
    end
    tape:write([[UPDATE searches SET ended_at = ?, status = ?, reason = ?, best = ?, score = ?,
        answer = ?, stats = ? WHERE run = ? AND id = ?]], self.ended or tape.clock(),
        final.status, final.reason, final.best, final.score, final.answer, encode(final.stats),
        tape.id, self.id)
end

Tree.__close = Tree.finish

---@param fields table kind, about, count, node, place, final
---@return ponder.log.Tree
function trees.new(fields)
    fields.scored, fields.noted, fields.written = 0, 0, {}
    return setmetatable(fields, Tree)
end

---The ids of a node and its ancestors.
---@param id any nil: none
---@param parent_of fun(id: any): any
function trees.path(id, parent_of)
    local path = {}
    while id do
        path[#path + 1] = id
        id = parent_of(id)
    end
    return path
end

---Returns a state as text: itself, or as JSON.
function trees.text_of(state)
    return type(state) == "string" and state or encode(state) or tostring(state)
end

return trees
