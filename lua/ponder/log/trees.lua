--- The searches and machines of a logged run: rows of `searches`, `nodes`, `edges` and `events`.
---
--- Nodes are written when a call is asked, so that a killed run leaves the tree as it was. A node
--- whose score arrives later is written twice.

local json = require "ponder.json"
local notice = require "ponder.notice"
local options = require "ponder.options"
local quote = require "ponder.quote"
local redact = require "ponder.redact"
local scheduler = require "ponder.task.scheduler"
local searches = require "ponder.searches"

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
---@param tape ponder.log.Tape
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

-- Writes the remaining changes. If the tree only grows, nodes with a score have none.
local function write_last_nodes(self, tape, best)
    write_nodes(self, tape)
    if self.only_grows and self.scored > 0 then
        note_node(self, tape, 1, self.node(1), best) -- the root is passed over without a score
    end
    for i = self.only_grows and self.scored + 1 or 1, self.noted do
        note_node(self, tape, i, self.node(i), best)
    end
    for id in pairs(self.only_grows and best or {}) do
        tape:write("UPDATE nodes SET best = 1 WHERE run = ? AND search = ? AND id = ?",
            tape.id, self.id, id)
    end
end

---Returns the row, node and purpose of a call that is asked now; writes the nodes so far.
---@param tape ponder.log.Tape
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
---@param event MachineEvent
function Tree:event(event)
    local tape = scheduler.tape()
    if tape and not tape.writer.discards then
        tape:event(event.name, encode { measurements = event.measurements,
            metadata = event.metadata }, self:row(tape))
    end
end

local function write_edges(self, tape, edges)
    for _, edge in ipairs(edges or {}) do
        tape:write("INSERT INTO edges (run, search, source, target, kind, score) "
            .. "VALUES (?, ?, ?, ?, ?, ?)", tape.id, self.id, edge.source,
            edge.target, edge.kind, edge.score)
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
    write_last_nodes(self, tape, best)
    write_edges(self, tape, final.edges)
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

---------------------------------------------------------------------------------------------------
-- Searches

local OPTIONS = { "name", "k", "beam_width", "max_depth", "max_nodes", "max_iterations",
    "concurrency", "batch", "seed", "actions" }
local DEFAULTS = { revisit = false, select = "weighted", retain = "tree", memory = 4 }
for name, rule in pairs(searches.RULES) do
    DEFAULTS[name] = rule.default or false
end

-- Returns the options that describe a search: some always, others unless they are the default.
local function options_of(opts)
    local described = options.pick(opts, OPTIONS)
    for name, default in pairs(DEFAULTS) do
        if (opts[name] or false) ~= default then
            described[name] = opts[name]
        end
    end
    described.prior = type(opts.prior) == "string" and opts.prior or nil
    return described
end

---The ids of a node and its ancestors.
---@param id any nil: none
---@param parent_of fun(id: any): any
---@return any[]
function trees.path(id, parent_of)
    local path = {}
    while id do
        path[#path + 1] = id
        id = parent_of(id)
    end
    return path
end

---Returns a state as text: by the search's `label`, or itself, or as JSON.
---@param state any
---@param label? fun(state: any): string
---@return string
function trees.text_of(state, label)
    local ok, text
    if label then
        ok, text = pcall(label, state)
    end
    if ok and type(text) == "string" then
        return text
    elseif label then
        notice.once(("search.run: label failed for a state, which is shown as it is: %s"):format(
            ok and "it returned " .. options.show(text) or quote.line(tostring(text))), "label")
    end
    return type(state) == "string" and state or encode(state) or tostring(state)
end

local function node_of(core, i, label)
    local node = core:node(i - 1)
    return node and { id = node.id, parent = node.parent_id, depth = node.depth,
        score = node.score, terminal = node.terminal, status = searches.figures(node),
        text = trees.text_of(node.state, label) }
end

-- Searches that evaluate a node once. (Those that back up values may change its score.)
local ONLY_GROW = { bfs = true, dfs = true, beam = true, best_first = true }

---Makes the tree of a search.
---@param core userdata of ponder.core.search
---@param opts table of search.run
---@return ponder.log.Tree tree; set `tree.outcome` when the search has ended
function trees.of_search(core, opts)
    local tree
    tree = trees.new {
        kind = opts.search, about = { options = options_of(opts) },
        only_grows = ONLY_GROW[opts.search],
        count = function() return core:count() end,
        node = function(i) return node_of(core, i, opts.label) end,
        place = function()
            local callback, id = core:calling()
            return id, callback and searches.callback_name(callback, opts)
        end,
        final = function()
            local best, outcome = core:best(), tree.outcome
            local expansions, duplicates, pruned = core:counts()
            local found = best and core:node(best).terminal
            local reason = outcome -- nil after an error or Ctrl-C
            if outcome == "over" then
                reason = found and "terminal" or "exhausted"
            end
            return { status = outcome and "completed" or "error", reason = reason, best = best,
                score = best and core:node(best).score,
                path = trees.path(best, function(id) return core:node(id).parent_id end),
                answer = best and trees.text_of(core:state(best), opts.label),
                stats = { nodes = core:count(), expansions = expansions, duplicates = duplicates,
                    pruned = pruned } }
        end,
    }
    return tree
end

---------------------------------------------------------------------------------------------------
-- Machines

-- Returns the options of a strategy that are text, numbers or switches, without its key.
local function plain(opts)
    local shown = {}
    for name, value in pairs(opts) do
        local kind = type(value)
        if kind == "number" or kind == "boolean" then
            shown[name] = value
        elseif kind == "string" and name ~= "api_key" then
            local is_address = value:find "^%a[%w+.-]*://%S+$"
            shown[name] = (is_address and redact.address or redact.without_userinfo)(value)
        end
    end
    return shown
end

---Makes the tree of a strategy's run.
---@param s ponder.strategy.Strategy
---@param question string
---@param outcome fun(): ponder.strategy.Outcome
---@return ponder.log.Tree
function trees.of_strategy(s, question, outcome)
    local seen
    return trees.new {
        kind = s.kind.name,
        about = { question = question, options = plain(s.opts),
            model = s:model_name(s.kind.first_role) },
        count = function()
            seen = s:look() -- node() reads this state
            return seen.count
        end,
        node = function(i) return seen.node(i) end,
        final = function()
            local now, result = s:look(), outcome()
            local path = now.path and now.path() or {}
            local best = path[#path]
            return { status = result.status, reason = result.stop_reason, best = best,
                score = result.score, path = path, edges = now.edges, answer = result.answer,
                stats = { calls = result.spent.calls, usage = result.spent.usage,
                    duration_ms = result.duration_ms } }
        end,
    }
end

return trees
