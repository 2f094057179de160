--- Improves the prompts and options of a policy on some items of an evaluation, and says on others
--- whether it did.
---
---     local optimize = require "ponder.optimize"
---     local result, message, code = optimize.run {
---         eval = { data = "items.jsonl", score = "exact", policies = {
---             io = { model = "openai:gpt-6-luna", prompt = "Answer: {{question}}" } } },
---         policy = "io", prompts = { "prompt" },
---         reflect_model = "anthropic:claude-sonnet-5", budget = { max_cost = 2 },
---     }
---     print(result.verdict, result.best.prompts.prompt)
---
--- Candidates are nodes of a search (ponder.search) whose policy, scripts/policies/pareto.lua,
--- keeps those that are best on some item, and draws one that is to be changed:
---
---     minibatch    a few items, mostly ones that it gets wrong
---     change       a model reads question, calls, answer, score and reason of each and writes a
---                  better prompt (GEPA, Agrawal et al. 2025); or two candidates that are best on
---                  different items are merged; or an option takes a step
---     gate         the child must be better on the minibatch, else it runs on nothing else
---     race         it runs on the other items, until it is decided to be worse than its parent
---
--- All that happens on the items to develop on. The others are held out: nothing of them is ever
--- put in a prompt. At the end the seed and the winner, the candidate with the highest mean score,
--- run on them; part of the budget is left for that. Only if the winner is better there, with a p
--- below 0.05, it is `best`; else that is the seed.

local accounts = require "ponder.think.ensemble.account"
local budgets = require "ponder.run.task.budget"
local builtin = require "ponder.base.builtin"
local change = require "ponder.judge.optimize.change"
local definition = require "ponder.judge.eval.definition"
local log = require "ponder.log"
local measure = require "ponder.judge.optimize.measure"
local model = require "ponder.model"
local options = require "ponder.base.options"
local prompt = require "ponder.prompt"
local scheduler = require "ponder.run.task.scheduler"
local search = require "ponder.search"
local subject = require "ponder.judge.optimize.subject"
local task = require "ponder.task"

local optimize = {}

local SIGNIFICANT = 0.05
local RESERVE = 1.5 -- of what the end would need if its runs cost what runs did so far
local MAX_UNUSABLE = 5 -- replies of the reflecting model in a row that have no prompt
local TICKETS = 4 -- a candidate: a proposal that was made before, or cannot be used, makes none

---@type OptionSchema
local RULES = {
    eval = { type = "table", required = true },
    policy = { type = "string" },
    prompts = { type = "table", default = {} },
    options = { type = "table", default = {} },
    reflect_model = { type = { "string", "table" } },
    propose = { type = "function" },
    merge = { type = "function" },
    minibatch = { type = "integer", min = 1, default = 3 },
    merge_share = { type = "number", min = 0, max = 1, default = 0.2 },
    held_out = { type = "number", min = 0.01, max = 0.99, default = 0.33 },
    seed = { type = "integer", default = 0 },
    alpha = { type = "number", min = 0.001, max = 0.5, default = 0.05 },
    max_candidates = { type = "integer", min = 1, max = 100000, default = 100 },
    batch = { type = "integer", min = 1, default = 1 },
    concurrency = { type = "integer", min = 1, default = 16 },
    budget = { type = "table", fields = budgets.LIMITS, default = {} },
    budget_per_item = { type = "table", fields = budgets.LIMITS },
    search = { type = "table" },
    on_progress = { type = "function" },
    perform = { type = "function" },
    is_spent = { type = "function" },
}
options.merge(RULES, options.pick(definition.CHOICE, { "limit", "sample", "directory" }))

---@class ponder.optimize.Candidate
---@field id integer of its node; 0 is the seed
---@field prompts table<string, string>
---@field options table<string, any>
---@field parent ponder.optimize.Candidate? nil: it is the seed
---@field with ponder.optimize.Candidate? with which its parent was merged
---@field change "seed"|"reflect"|"merge"|"option"
---@field part string? what was changed
---@field score number its mean on the items to develop on; on those where it was not measured, its
---  parent's counts
---@field scores (number|false)[] an item each; false: not measured, or rejected by the gate
---@field measured integer items on which it ran
---@field rejected boolean? by the gate
---@field race "lower"|"higher"|nil decided against its parent; "lower" ended its measurement
---@field develop table<integer, ponder.optimize.Outcome> by number of the item
---@field held_out table<integer, ponder.optimize.Outcome>

---@class ponder.optimize.Optimization
---@field develop ponder.eval.Item[]
---@field held_out ponder.eval.Item[]
---@field seed ponder.optimize.Candidate
---@field candidates ponder.optimize.Candidate[] in order of creation; the seed is the first
---@field failures {message: string, count: integer}[] why proposals made no candidate
local Optimization = {}
Optimization.__index = Optimization

---Tells `on_progress`.
---@package
function Optimization:show()
    if self.on_progress then
        self.on_progress(self)
    end
end

---The candidate with the highest mean score; the older one among equals.
---@return ponder.optimize.Candidate
---@package
function Optimization:best()
    local best = self.seed
    for _, candidate in ipairs(self.candidates) do
        best = candidate.score > best.score and candidate or best
    end
    return best
end

-- Updates the scores of a candidate.
local function update(self, candidate)
    local sum, parent = 0, candidate.parent
    candidate.measured = 0
    for place = 1, #self.develop do
        local own, other = candidate.develop[place], parent and parent.develop[place]
        candidate.measured = candidate.measured + (own and 1 or 0)
        candidate.scores[place] = own and not candidate.rejected and own.score or false
        sum = sum + (own and own.score or other and other.score or 0)
    end
    candidate.score = sum / #self.develop
end

-- The candidate with these prompts and options, a new one or one that is known; or nil, message.
local function candidate_of(self, changed)
    local hash = subject.hash(changed)
    if not self.by_hash[hash] then
        local candidate = options.merge({ hash = hash, develop = {}, held_out = {}, scores = {},
            measured = 0, score = 0, lock = task.semaphore(1) }, changed)
        local policy, message = self.subject:policy(candidate, self.develop)
        if not policy then
            return nil, message
        end
        candidate.policy = policy
        self.by_hash[hash] = candidate
    end
    return self.by_hash[hash]
end

-- The child that a ticket makes; the candidate itself, which is not a new node, if it makes none.
local function expand(self, candidate, ticket)
    local parents, outcomes, changed, message, child = { candidate, ticket.with }, { {}, {} }
    local is_right = true
    for i, parent in ipairs(parents) do
        measure.run(self, parent, ticket.items)
        update(self, parent)
        for _, place in ipairs(ticket.items) do
            local outcome = parent.develop[place]
            table.insert(outcomes[i], outcome)
            is_right = is_right and outcome ~= nil and outcome.score >= 1
        end
    end
    if measure.is_spent(self) or #outcomes[1] + #outcomes[2] < #ticket.items * #parents then
        return candidate
    elseif is_right then
        message = "all answers of its minibatch are right" -- so the gate would reject each child
    elseif ticket.with then
        changed, message = change.merge(self, candidate, ticket.with, ticket, outcomes)
    else
        changed, message = change.reflect(self, candidate, ticket, outcomes[1])
    end
    if changed then
        child, message = candidate_of(self, changed)
    end
    -- A candidate that was rejected may try again. Tickets of one round do not see each other.
    local is_known = child and (child.round or self.round) < self.round and not child.rejected
    if not child or is_known then
        message = tostring(message or "it was proposed before")
        local known = self.failures[message] or { message = message, count = 0 }
        if known.count == 0 then
            self.failures[message], self.failures[#self.failures + 1] = known, known
        end
        known.count = known.count + 1
        return child or candidate
    end
    if not child.round or child.round == self.round and ticket.number < child.number then
        options.merge(child, { round = self.round, number = ticket.number, parent = candidate,
            with = ticket.with, change = changed.change, part = changed.part })
    end
    if measure.gate(self, child, parents, ticket.items) then
        child.passed = true
        local verdict = measure.race(self, child, candidate, ticket.items)
        child.race = child.race == "lower" and child.race or verdict
    end
    child.rejected = not child.passed or nil
    update(self, child)
    return child
end

-- The limits of the search once the seed was measured: without what the seed and the winner are
-- expected to need on the items held out.
local function search_limits(self, limits)
    local spent, left = self.budget:account(), {}
    local share = 1 + RESERVE * 2 * #self.held_out / self.seed.measured
    for name, used in pairs { max_calls = spent.calls, max_total_tokens = spent.tokens,
        max_cost = spent.cost or 0, timeout_ms = (task.now() - self.began) * 1000 } do
        local rest = limits[name] and math.max(0, limits[name] - used * share)
        left[name] = rest and math.type(limits[name]) == "integer" and math.floor(rest) or rest
    end
    return left
end

local function search_all(self, opts)
    local limits = search_limits(self, opts.budget)
    local duration, can_merge = limits.timeout_ms, self.merge or self.reflect_model
    local policy = options.merge({}, opts.search or builtin.policy "pareto")
    local select = policy.select
    function policy.select(...)
        self.round = self.round + 1
        return select(...)
    end
    limits.timeout_ms = nil
    local result, _, _, partial = budgets.within(budgets.new(limits), search.run, {
        name = "optimize " .. self.subject.name, search = policy,
        options = { minibatch = math.min(opts.minibatch, #self.develop),
            parts = #self.subject.parts,
            merge = (can_merge or self.subject.parts[2]) and opts.merge_share or 0 },
        initial_state = self.seed, seed = opts.seed, k = 1, max_depth = math.maxinteger,
        batch = opts.batch, max_nodes = opts.max_candidates, max_duration_ms = duration,
        max_iterations = TICKETS * opts.max_candidates,
        expand = function(candidate, _, node)
            return { expand(self, candidate, node.ticket) }
        end,
        evaluate = function(candidate) return candidate.score end,
        key = function(candidate) return candidate.hash end,
        stop = function()
            return self.unusable >= MAX_UNUSABLE or measure.is_spent(self)
        end,
        label = optimize.label,
        on_event = function(event)
            if event.type == "scored" then
                event.state.id = event.id
                table.insert(self.candidates, event.state)
                log.event("optimize.candidate", optimize.describe(event.state))
                self:show()
            end
        end,
    })
    self.found = result or partial
end

---A candidate as one text, for people: its prompts, and its options a line each.
---@param candidate ponder.optimize.Candidate
---@return string
---@package
function optimize.label(candidate)
    local parts, names = {}, options.names(candidate.prompts)
    for _, name in ipairs(names) do
        parts[#parts + 1] = (names[2] and name .. ":\n" or "") .. candidate.prompts[name]
    end
    for _, name in ipairs(options.names(candidate.options)) do
        parts[#parts + 1] = ("%s = %s"):format(name, tostring(candidate.options[name]))
    end
    return table.concat(parts, "\n")
end

---A candidate as JSON.
---@param candidate ponder.optimize.Candidate
---@return table
---@package
function optimize.describe(candidate)
    local described = options.pick(candidate, { "id", "prompts", "options", "change", "part",
        "score", "measured", "rejected", "race" })
    described.parent = candidate.parent and candidate.parent.id
    described.with, described.scores = candidate.with and candidate.with.id, {}
    for place = 1, #candidate.scores do
        local outcome = candidate.develop[place]
        described.scores[place] = outcome and outcome.score or false
    end
    return described
end

local REASONS = { stop = "budget", max_nodes = "max_candidates", max_duration = "timeout",
    max_iterations = "exhausted" }

local function ids_of(items)
    local ids = {}
    for i, item in ipairs(items) do
        ids[i] = item.id
    end
    return ids
end

---@class ponder.optimize.Result
---@field best ponder.optimize.Candidate the winner if it is better, else the seed
---@field seed ponder.optimize.Candidate
---@field winner ponder.optimize.Candidate with the highest mean score on the items to develop on
---@field verdict "better"|"not better"|"not evaluated" the last: the budget was spent before
---@field difference ponder.eval.Difference? winner minus seed on the items held out; nil: the
---  winner is the seed, or was not evaluated
---@field held_out {seed: ponder.eval.Figure, winner: ponder.eval.Figure, ids: string[]}
---@field develop {ids: string[]}
---@field front ponder.optimize.Candidate[] best on some item to develop on, the highest mean first
---@field candidates ponder.optimize.Candidate[] all, in order of creation
---@field failures {message: string, count: integer}[] why proposals made no candidate
---@field tree SearchTree? whose nodes' states are the candidates; nil: the seed was not measured
---@field stop_reason "max_candidates"|"budget"|"timeout"|"exhausted"|"reflection"|string why the
---  search ended; reflection: several replies in a row had no prompt
---@field spent ponder.task.Spent
---@field subject ponder.optimize.Subject

local function result_of(self)
    local found, front = self.found, {}
    for _, candidate in ipairs(self.candidates) do
        update(self, candidate)
    end
    for i, node in ipairs(found and found.tree.nodes or {}) do
        front[#front + 1] = (node.wins or 0) > 0 and self.candidates[i] or nil
    end
    table.sort(front, function(a, b)
        return a.score > b.score or a.score == b.score and a.id < b.id
    end)
    local winner = self:best()
    local own, seed, difference = measure.compare(self, winner, self.seed)
    local is_better = difference and (difference.p or 1) < SIGNIFICANT and difference.value > 0
    return { best = is_better and winner or self.seed, seed = self.seed, winner = winner,
        verdict = is_better and "better" or (difference or winner == self.seed and own.n > 0)
            and "not better" or "not evaluated",
        difference = difference, develop = { ids = ids_of(self.develop) }, front = front,
        held_out = { seed = seed, winner = own, ids = ids_of(self.held_out) },
        candidates = self.candidates, failures = self.failures, tree = found and found.tree,
        spent = self.budget:account(), subject = self.subject,
        stop_reason = self.budget.late and "timeout" or not found and "budget"
            or self.unusable >= MAX_UNUSABLE and "reflection"
            or REASONS[found.stop_reason] or found.stop_reason }
end

-- Opens the model that writes prompts; raises, too, if its own prompts cannot be loaded.
local function open_reflection(self, named, level)
    local value, message = self.subject.value, nil
    named = named or type(value) == "table" and (value.opts or value).model or nil
    if type(named) ~= "table" then
        named, message = model.try_open(named)
    end
    message = not named and "reflect_model: " .. message or select(2, prompt.load "optimize")
    if message then
        error("optimize.run: " .. message, level + 1)
    end
    self.reflect_model = accounts.model("optimize.run: reflect_model", named, level + 1)
end

---@class ponder.optimize.RunOptions
---@field eval table the evaluation (ponder.eval)
---@field policy? string which of its policies; default: the only one
---@field prompts? string[]|table<string, string> names of prompts to improve: of a strategy those
---  of its prompt file, of a prompt `prompt` and `system`; or texts by name, which a policy that is
---  a function finds in `run.prompts`
---@field options? table<string, table> by option: { min = 2, max = 5 }, or a list of values; a
---  function finds them in `run.options`
---@field reflect_model? string|ponder.model.Model default: the policy's own
---@field propose? fun(candidate: ponder.optimize.Candidate, feedback: {part: string, items:
---  ponder.optimize.Outcome[]}): any instead of a model: returns a text for `feedback.part`, or
---  { prompts =, options = }; or nil and why there is none. It may wait
---@field merge? fun(a: ponder.optimize.Candidate, b: ponder.optimize.Candidate): any likewise, for
---  two that are best on different items: returns { prompts =, options = }
---@field minibatch? integer items for each change, default 3
---@field merge_share? number the share of merges among changes, default 0.2
---@field held_out? number the share of items held out, default 0.33
---@field seed? integer of the split, and of all that is drawn, default 0
---@field alpha? number of a race, default 0.05
---@field max_candidates? integer the seed included, default 100
---@field batch? integer changes a round, which do not see each other, default 1
---@field concurrency? integer runs at once, default 16
---@field budget? ponder.task.Limits of everything, the end on the items held out included
---@field budget_per_item? ponder.task.Limits of each run
---@field search? SearchPolicy instead of pareto
---@field limit? integer only the first items
---@field sample? integer size of a random sample of the items
---@field directory? string the base of relative names of data files
---@field on_progress? fun(state: ponder.optimize.Optimization) after each run
---@field perform? function replaces ponder.judge.eval.attempt.perform
---@field is_spent? fun(): boolean whether a budget that is shared with workers is spent

---Optimizes a policy. An invalid option or evaluation raises; invalid data do not.
---@param opts ponder.optimize.RunOptions
---@return ponder.optimize.Result? result
---@return string? message
---@return "BAD_DATA"|"BAD_REPLY"? code BAD_REPLY: the reflecting model wrote no prompt
function optimize.run(opts)
    opts = options.check("optimize.run", opts, RULES)
    scheduler.check("optimize.run")
    local policies = type(opts.eval.policies) == "table" and opts.eval.policies or {}
    local names = options.names(policies)
    local name = opts.policy or not names[2] and names[1]
    local function refuse(is_wrong, message, ...)
        if is_wrong then
            error("optimize.run: " .. message:format(...), 3)
        end
    end
    refuse(not name and names[1], "opts.policy must name the policy to optimize; there are %s",
        table.concat(names, ", "))
    local evaluation, message, code = definition.new(opts.eval, options.merge({ policy = { name } },
        options.pick(opts, { "limit", "sample", "directory", "seed" })), 2)
    if not evaluation then
        return nil, message, code
    end
    evaluation.curves = false
    local self = setmetatable({ evaluation = evaluation, alpha = opts.alpha,
        seed_number = opts.seed, concurrency = opts.concurrency, propose = opts.propose,
        merge = opts.merge, on_progress = opts.on_progress, is_shared_spent = opts.is_spent,
        slots = task.semaphore(opts.concurrency), candidates = {}, by_hash = {}, failures = {},
        round = 0, unusable = 0, limits = { seed = opts.seed, perform = opts.perform,
            budget_per_item = opts.budget_per_item }, budget = budgets.new(opts.budget),
        began = task.now() }, Optimization)
    self.subject, message = subject.new(name, policies[name], opts.prompts, opts.options)
    refuse(not self.subject, "%s", message)
    local first = self.subject.parts[1]
    refuse(not first, "opts.prompts and opts.options are empty: nothing is to change")
    self.develop, self.held_out = measure.split(evaluation.items, opts.held_out, opts.seed)
    if not self.develop[1] then
        return nil, ("%d items, of which clusters stay together, cannot be split into items to "
            .. "develop on and items held out"):format(#evaluation.items), "BAD_DATA"
    elseif not opts.propose and first.kind == "prompt" then
        open_reflection(self, opts.reflect_model, 2)
    end
    self.seed, message = candidate_of(self, options.merge({ change = "seed", id = 0, round = 0 },
        self.subject.seed))
    refuse(not self.seed, "%s", message)
    log.event("optimize.begin", { policy = name, seed = opts.seed,
        develop = ids_of(self.develop), held_out = ids_of(self.held_out) })
    budgets.within(self.budget, function()
        local places = {}
        for place = 1, #self.develop do
            places[place] = place
        end
        measure.run(self, self.seed, places)
        update(self, self.seed)
        if self.seed.measured > 0 then
            search_all(self, opts)
            local winner = self:best()
            measure.hold_out(self, { self.seed, winner ~= self.seed and winner or nil })
        end
    end)
    if self.unusable >= MAX_UNUSABLE and not self.candidates[2] then
        return nil, ("%s gave no prompt %d times in a row: %s; reflect_model (--reflect-model) "
            .. "names another model"):format(self.reflect_model.name, self.unusable, self.problem),
            "BAD_REPLY"
    end
    local result = result_of(self)
    log.event("optimize.end", { verdict = result.verdict, winner = result.winner.id,
        difference = result.difference })
    return result
end

return optimize
