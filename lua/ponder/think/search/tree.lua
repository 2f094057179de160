--- The tree of a search in the run log.

local notice = require "ponder.base.notice"
local options = require "ponder.base.options"
local quote = require "ponder.quote"
local searches = require "ponder.base.searches"
local trees = require "ponder.run.log.trees"

local tree = {}

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

---Returns a state as text: by the search's `label`, or itself, or as JSON.
---@param state any
---@param label? fun(state: any): string
---@return string
function tree.text_of(state, label)
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
    return trees.text_of(state)
end

local function node_of(core, i, label)
    local node = core:node(i - 1)
    return node and { id = node.id, parent = node.parent_id, depth = node.depth,
        score = node.score, terminal = node.terminal, status = searches.figures(node),
        text = tree.text_of(node.state, label) }
end

-- Searches that evaluate a node once. (Those that back up values may change its score.)
local ONLY_GROW = { bfs = true, dfs = true, beam = true, best_first = true }

---Makes the tree of a search.
---@param core userdata of ponder.core.search
---@param opts table of search.run
---@return ponder.log.Tree tree; set its `outcome` when the search has ended
function tree.of(core, opts)
    local self
    self = trees.new {
        kind = opts.search, about = { options = options_of(opts) },
        only_grows = ONLY_GROW[opts.search],
        count = function() return core:count() end,
        node = function(i) return node_of(core, i, opts.label) end,
        place = function()
            local callback, id = core:calling()
            return id, callback and searches.callback_name(callback, opts)
        end,
        final = function()
            local best, outcome = core:best(), self.outcome
            local expansions, duplicates, pruned = core:counts()
            return { -- no outcome: after an error or Ctrl-C
                status = outcome and "completed" or "error", reason = outcome, best = best,
                score = best and core:node(best).score,
                path = trees.path(best, function(id) return core:node(id).parent_id end),
                answer = best and tree.text_of(core:state(best), opts.label),
                stats = { nodes = core:count(), expansions = expansions, duplicates = duplicates,
                    pruned = pruned } }
        end,
    }
    return self
end

return tree
