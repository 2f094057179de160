--- Implements ponder.ensemble.rank: orders items by comparing pairs of them.

local accounts = require "ponder.think.ensemble.account"
local budgets = require "ponder.run.task.budget"
local json = require "ponder.json"
local moments = require "ponder.base.stats.moments"
local options = require "ponder.base.options"
local stats = require "ponder.stats"
local vote = require "ponder.think.ensemble.vote"

local SCHEMA = {
    items = { type = "table", required = true },
    compare = { type = "function" },
    judge = { type = { "table", "string" } },
    prompt = { type = "any" },
    logprobs = { type = "boolean" },
    method = { type = "string", enum = { "knockout", "league", "swiss" }, default = "knockout" },
    repeats = { type = "integer", min = 1, max = 1024, default = 2 },
    seed = { type = "integer" },
    key = { type = "function" },
    concurrency = { type = "integer", min = 1 },
    on_error = { type = "string", enum = { "raise", "collect" }, default = "collect" },
    opponents = { type = "integer", min = 1 },
    min_degree = { type = "integer", min = 1 },
    window = { type = "integer", min = 1 },
    budget = { type = "integer", min = 1 },
    tau = { type = "number", min = 0, max = 1 },
}

-- Which methods an option is for.
local ONLY = { opponents = "league", min_degree = "swiss", window = "swiss", budget = "swiss",
    tau = "swiss" }

-------------------------------------------------------------------------------
-- Games

local function numbers(n, value)
    local list = {}
    for i = 1, n do
        list[i] = value or i
    end
    return list
end

-- The items' numbers in the order in which they are seated: that of the list, or a shuffled one.
local function seats(n, seed)
    local list = numbers(n)
    local function mix(word)
        return math.tointeger(tonumber(stats.splitmix64(word, 1)[1], 16))
    end
    for t = seed and n or 1, 2, -1 do -- the draws of a search: (seed, 0, t, 0)
        local state = mix(mix(mix(mix(seed)) ~ t))
        local other = 1 + stats.splitmix64_below(state, t, 1)[1]
        list[t], list[other] = list[other], list[t]
    end
    return list
end

---@class ponder.ensemble.Games what is known of the pairs
---@field list {i: integer, j: integer, s: number}[] in the order in which they were played
---@field points number[] of each item: 1, 0.5 or 0 a game
---@field games integer[]
---@field rounds integer[][][]
---@field comparisons integer calls of compare

-- Plays a round of pairs {i, j} concurrently, `repeats` times each. Returns their results in order.
local function play(self, pairs_of_round)
    local asked, heard = {}, {}
    for p, pair in ipairs(pairs_of_round) do
        local i, j = pair[1], pair[2]
        heard[p] = {}
        if not (self.keys and self.keys[i] ~= nil and self.keys[i] == self.keys[j]) then
            for r = 1, self.opts.repeats do
                local is_odd = r % 2 == 1
                asked[#asked + 1] = { pair = p, turn = r, i = is_odd and i or j,
                    j = is_odd and j or i }
            end
        end
    end
    local items, compare = self.opts.items, self.compare
    local values, errors = self.account:map(asked, function(one)
        local value, message, code = self.account:try(compare, items[one.i], items[one.j], one.i,
            one.j, one.turn)
        if type(value) ~= "number" or not (value >= 0 and value <= 1) then
            return nil, value == nil and message or "compare must return a number from 0 to 1 (got "
                .. options.show(value) .. ")", value == nil and message and code or "BAD_RESULT"
        end
        return value
    end)
    for index, one in ipairs(asked) do
        if values[index] then
            local value = values[index]
            table.insert(heard[one.pair], one.turn % 2 == 1 and value or 1 - value)
        else
            self.account:fail(index + self.comparisons, errors[index].message, errors[index].code)
        end
    end
    self.comparisons = self.comparisons + #asked
    local results, shown = {}, json.array {}
    for p, pair in ipairs(pairs_of_round) do
        local i, j, s = pair[1], pair[2], heard[p][1] and moments.average(heard[p]) or 0.5
        local x = s > 0.5 and 1.0 or s == 0.5 and 0.5 or 0.0
        self.points[i], self.points[j] = self.points[i] + x, self.points[j] + (1 - x)
        self.games[i], self.games[j] = self.games[i] + 1, self.games[j] + 1
        self.met[i][j], self.met[j][i] = true, true
        results[p] = { i = i, j = j, s = s, x = x }
        self.list[#self.list + 1] = results[p]
        shown[p] = json.array { i, j }
    end
    if shown[1] then
        self.rounds[#self.rounds + 1] = shown
    end
    return results
end

-- Orders the items by several measures, each a list by item, the highest first; then by number.
local function order_by(n, ...)
    local list, measures = numbers(n), { ... }
    table.sort(list, function(a, b)
        for _, measure in ipairs(measures) do
            if measure[a] ~= measure[b] then
                return measure[a] > measure[b]
            end
        end
        return a < b
    end)
    return list
end

-------------------------------------------------------------------------------
-- Methods

-- Single elimination; a bye goes first in the next round.
local function knockout(self, places)
    local n, out_at, lost_with = #places, {}, {}
    local round = 0
    while #places > 1 do
        round = round + 1
        local paired, next_places = {}, {}
        if #places % 2 == 1 then
            next_places[1] = places[#places]
        end
        for p = 1, #places - 1, 2 do
            paired[#paired + 1] = { places[p], places[p + 1] }
        end
        for _, game in ipairs(play(self, paired)) do
            local first_wins = game.s > 0.5 or game.s == 0.5 and game.i < game.j
            local winner = first_wins and game.i or game.j
            local loser = first_wins and game.j or game.i
            out_at[loser] = round
            lost_with[loser] = first_wins and 1 - game.s or game.s
            next_places[#next_places + 1] = winner
        end
        places = next_places
    end
    out_at[places[1]], lost_with[places[1]] = round + 1, 0
    return order_by(n, out_at, lost_with)
end

-- The pairs (place p, place p + d), each once, for d = 1 .. half of the opponents.
local function neighbours(places, opponents)
    local list, seen, n = {}, {}, #places
    for d = 1, math.min(math.ceil(opponents / 2), n) do -- farther round, all have met
        for p = 1, n do
            local i, j = places[p], places[(p + d - 1) % n + 1]
            local both = math.min(i, j) * (n + 1) + math.max(i, j)
            if i ~= j and not seen[both] then
                seen[both], list[#list + 1] = true, { i, j }
            end
        end
    end
    return list
end

-- Bradley-Terry strengths, as logarithms, by Hunter's 2004 minorization; a drawn game against an
-- item of strength 1 keeps them finite.
local MAX_ROUNDS, MOVED = 100000, 1e-13

local function strengths(self, n)
    local wins, theta, p, rates = {}, {}, {}, {}
    for i = 1, n do
        wins[i], theta[i], p[i] = 0.5, 0.0, 1.0
    end
    for _, game in ipairs(self.list) do
        wins[game.i], wins[game.j] = wins[game.i] + game.s, wins[game.j] + (1 - game.s)
    end
    for _ = 1, MAX_ROUNDS do
        local moved = 0.0
        for i = 1, n do
            rates[i] = 1 / (p[i] + 1)
        end
        for _, game in ipairs(self.list) do
            local i, j = game.i, game.j
            local rate = 1 / (p[i] + p[j])
            rates[i], rates[j] = rates[i] + rate, rates[j] + rate
        end
        for i = 1, n do
            p[i] = wins[i] / rates[i]
            local now = math.log(p[i])
            moved, theta[i] = math.max(moved, math.abs(now - theta[i])), now
        end
        if moved < MOVED then
            break
        end
    end
    return theta
end

-- Everybody against everybody, or against some.
local function league(self, places)
    local n, paired = #places, {}
    if self.opts.opponents then
        paired = neighbours(places, self.opts.opponents)
    else
        for i = 1, n do
            for j = i + 1, n do
                paired[#paired + 1] = { i, j }
            end
        end
    end
    play(self, paired)
    local share, margin = {}, numbers(n, 0.0)
    for i = 1, n do
        share[i] = self.games[i] > 0 and self.points[i] / self.games[i] or 0.5
    end
    for _, game in ipairs(self.list) do
        margin[game.i] = margin[game.i] + (game.s - 0.5)
        margin[game.j] = margin[game.j] + ((1 - game.s) - 0.5)
    end
    self.scores = strengths(self, n)
    return order_by(n, share, margin)
end

-- Each item against its neighbours, then those of like strength against each other.
local function swiss(self, places)
    local n, opts = #places, self.opts
    local budget, window, tau = opts.budget or 3 * n, opts.window or 8, opts.tau or 0.1
    local sums, weights, mu, points = numbers(n, 0.0), numbers(n, 0.0), {}, self.points
    local paired = neighbours(places, opts.min_degree or 2)
    for p = #paired, budget + 1, -1 do
        paired[p] = nil
    end
    while paired[1] do
        for _, game in ipairs(play(self, paired)) do
            local x = game.x
            local w = math.max(tau, math.abs(2 * game.s - 1))
            sums[game.i], weights[game.i] = sums[game.i] + w * x, weights[game.i] + w
            sums[game.j], weights[game.j] = sums[game.j] + w * (1 - x), weights[game.j] + w
        end
        for i = 1, n do
            mu[i] = weights[i] > 0 and sums[i] / weights[i] or 0.5
        end
        local ranked, taken = order_by(n, mu, points), {}
        paired = {}
        for p = 1, n do
            local i = ranked[p]
            for q = p + 1, not taken[i] and math.min(n, p + window) or 0 do
                local j = ranked[q]
                if #self.list + #paired < budget and not taken[j] and not self.met[i][j] then
                    taken[i], taken[j], paired[#paired + 1] = true, true, { i, j }
                    break
                end
            end
        end
    end
    self.mu = mu[1] and mu or numbers(n, 0.5)
    return order_by(n, self.mu, points)
end

local METHODS = { knockout = knockout, league = league, swiss = swiss }

---See ponder.ensemble.rank.
return function(opts, more)
    local where = "ensemble.rank"
    opts = accounts.check(where, opts, SCHEMA, more)
    for _, name in ipairs(options.names(ONLY)) do
        if opts[name] ~= nil and opts.method ~= ONLY[name] then
            error(("%s: opts.%s is for the method %q"):format(where, name, ONLY[name]), 2)
        end
    end
    if opts.logprobs and not opts.judge then
        error(where .. ": opts.logprobs needs opts.judge", 2)
    elseif (opts.compare == nil) == (opts.judge == nil) then
        error(where .. ": give opts.compare, a function, or opts.judge, a model", 2)
    end
    local n, account = #opts.items, accounts.new(opts)
    if n == 0 then
        error(where .. ": opts.items must not be empty", 2)
    elseif opts.prompt and not opts.judge then
        error(where .. ": opts.prompt needs opts.judge", 2)
    end
    for i = 1, n do
        local item = opts.items[i]
        if item == nil or opts.judge and type(item) ~= "string" then
            error(("%s: opts.items[%d] must be %s (got %s)"):format(where, i,
                opts.judge and "a text, for a judge that is a model" or "there",
                options.show(item)), 2)
        end
    end
    local self = { opts = opts, account = account, list = {}, points = json.array {}, games = {},
        met = {}, rounds = json.array {}, comparisons = 0, compare = opts.compare }
    if opts.judge then
        local m = accounts.model(where .. ": opts.judge", opts.judge, 2)
        local question = accounts.question(accounts.messages(where, opts.prompt, 2))
        function self.compare(a, b, _, _, turn)
            return vote.compare(m, question, a, b, turn, opts.logprobs)
        end
    end
    for i = 1, n do
        self.points[i], self.games[i], self.met[i] = 0.0, 0, {}
    end
    if opts.key then
        self.keys = {}
        for i, item in ipairs(opts.items) do
            self.keys[i] = opts.key(item, i)
        end
    end
    local ranking = budgets.within(account.budget, METHODS[opts.method], self, seats(n, opts.seed))
    if self.comparisons > 0 and #account.errors == self.comparisons then
        return account:give_up("rank", 1, 0, { rounds = self.rounds })
    end
    return account:close { ranking = ranking, winner = ranking[1], best = opts.items[ranking[1]],
        rounds = self.rounds, comparisons = self.comparisons, stop_reason = "ranked",
        points = opts.method ~= "knockout" and self.points or nil, scores = self.scores,
        mu = self.mu }
end
