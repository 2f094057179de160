--- Implements ponder.ensemble.verifiers: combines weak checks of an answer without labels.
---
--- An EM algorithm for verifiers that err independently of each other given whether the candidate
--- is right (Dawid and Skene 1979); the idea of dropping and weighting weak verifiers of a model's
--- replies is that of Saad-Falcon et al. 2025, "Shrinking the Generation-Verification Gap with Weak
--- Verifiers" (Weaver, arXiv 2506.18203), whose form differs.

local files = require "ponder.run.log.files"
local json = require "ponder.json"
local options = require "ponder.base.options"

local log, exp = math.log, math.exp

local SCHEMA = {
    scores = { type = "table", required = true },
    threshold = { type = "number", min = 0, max = 1 },
    drop = { type = "number", min = 0, max = 1 },
    rounds = { type = "integer", min = 0, max = 10000 },
    fitted = { type = { "table", "string" } },
}

local DEFAULTS = { threshold = 0.5, drop = 0.05, rounds = 50 }

local FITTED = {
    threshold = { type = "number", min = 0, max = 1, required = true },
    prior = { type = "number", min = 0, max = 1, required = true },
    verifiers = { type = "table", required = true },
}

local MAX_VERIFIERS = 1000

local VERIFIER = {
    dropped = { type = "boolean", required = true },
    min = { type = "number", finite = true }, max = { type = "number", finite = true },
    sensitivity = { type = "number", min = 0, max = 1 },
    specificity = { type = "number", min = 0, max = 1 },
    yes = { type = "number", finite = true, required = true },
    no = { type = "number", finite = true, required = true },
}

-- Reads what an earlier call learnt: its `fitted`, or a file with that as JSON.
local function load_fitted(where, fitted)
    if type(fitted) == "string" then
        local path = fitted
        local text, message = files.read(path, "data")
        fitted = text and json.decode(text)
        if type(fitted) ~= "table" then
            return nil, ("%s: opts.fitted: %s"):format(where, message or path .. " is not JSON of "
                .. "an earlier result's `fitted`")
        end
    end
    local ok, checked = pcall(options.check, where .. ": opts.fitted", fitted, FITTED, 0)
    if not ok then
        return nil, checked
    end
    for i, one in ipairs(checked.verifiers) do
        ok, checked.verifiers[i] = pcall(options.check,
            ("%s: opts.fitted.verifiers[%d]"):format(where, i), one, VERIFIER, 0)
        if not ok then
            return nil, checked.verifiers[i]
        elseif not one.dropped and not (one.min and one.max and one.min < one.max) then
            return nil, ("%s: opts.fitted.verifiers[%d] must have min < max"):format(where, i)
        end
    end
    return checked
end

-- The width of the table. Raises for what is not a number.
local function count_columns(where, rows)
    local width = 0
    for i, row in ipairs(rows) do
        if type(row) ~= "table" then
            error(("%s: scores[%d] must be a list of scores (got %s)"):format(where, i,
                options.show(row)), 3)
        end
        for j, x in pairs(row) do
            if math.type(j) ~= "integer" or j < 1 or j > MAX_VERIFIERS then
                error(("%s: scores[%d] must be a list of at most %d scores (got the key %s)")
                    :format(where, i, MAX_VERIFIERS, options.show(j)), 3)
            elseif x and not options.is_finite(x) then
                error(("%s: scores[%d][%d] must be a finite number, or false for none (got %s)")
                    :format(where, i, j, options.show(x)), 3)
            end
            width = math.max(width, j)
        end
    end
    return width
end

-- What a verifier's least and highest scores are.
local function range(rows, column)
    local low, high
    for _, row in ipairs(rows) do
        local x = row[column]
        if x then
            low, high = low and math.min(low, x) or x, high and math.max(high, x) or x
        end
    end
    return low, high
end

-- The votes of a verifier: for each row true, false, or nil without a score.
local function votes_of(rows, column, verifier, threshold)
    local votes, width = {}, verifier.max - verifier.min
    for i, row in ipairs(rows) do
        if row[column] then
            votes[i] = (row[column] - verifier.min) / width >= threshold
        end
    end
    return votes
end

-- The logarithm of the odds that a row is right.
local function log_odds(row, prior, verifiers, votes)
    local sum = log(prior / (1 - prior))
    for j, verifier in ipairs(verifiers) do
        local vote = votes[j] and votes[j][row]
        if vote ~= nil and not verifier.dropped then
            sum = sum + (vote and verifier.yes or verifier.no)
        end
    end
    return sum
end

-- Learns the verifiers' weights: their votes, and `fitted`.
local function fit(rows, width, opts)
    local n, verifiers, votes = #rows, json.array {}, {}
    for j = 1, width do
        local low, high = range(rows, j)
        local one = { dropped = true, min = low, max = high, yes = 0.0, no = 0.0 }
        verifiers[j], votes[j] = one, false
        if low and high > low then
            local given, yes, list = 0, 0, votes_of(rows, j, one, opts.threshold)
            for i = 1, n do
                given = given + (list[i] ~= nil and 1 or 0)
                yes = yes + (list[i] and 1 or 0)
            end
            local share = yes / given
            if not (share < opts.drop or share > 1 - opts.drop) then
                one.dropped, votes[j] = false, list
            end
        end
    end
    local p, prior = {}, 0.5
    for i = 1, n do
        local yes, given = 0, 0
        for j = 1, width do
            local vote = votes[j] and votes[j][i]
            if vote ~= nil and votes[j] then
                given, yes = given + 1, yes + (vote and 1 or 0)
            end
        end
        p[i] = given > 0 and yes / given or 0.5
    end
    for _ = 1, opts.rounds do
        local total = 0.0
        for i = 1, n do
            total = total + p[i]
        end
        prior = (1 + total) / (n + 2)
        for j, one in ipairs(verifiers) do
            if votes[j] then
                local right, right_yes, wrong, wrong_no = 0.0, 0.0, 0.0, 0.0
                for i = 1, n do
                    local vote = votes[j][i]
                    if vote ~= nil then
                        right, wrong = right + p[i], wrong + (1 - p[i])
                        if vote then
                            right_yes = right_yes + p[i]
                        else
                            wrong_no = wrong_no + (1 - p[i])
                        end
                    end
                end
                local a, b = (1 + right_yes) / (2 + right), (1 + wrong_no) / (2 + wrong)
                one.sensitivity, one.specificity = a, b
                one.yes = a + b > 1 and log(a / (1 - b)) or 0.0
                one.no = a + b > 1 and log((1 - a) / b) or 0.0
            end
        end
        for i = 1, n do
            p[i] = 1 / (1 + exp(-log_odds(i, prior, verifiers, votes)))
        end
    end
    return { threshold = opts.threshold, prior = prior, verifiers = verifiers }, votes
end

---See ponder.ensemble.verifiers.
return function(given)
    local where = "ensemble.verifiers"
    local opts = options.check(where, given, SCHEMA)
    local rows = opts.scores
    local width = count_columns(where, rows)
    local fitted, votes
    if opts.fitted then
        for name in pairs(DEFAULTS) do
            if opts[name] then
                error(("%s: opts.%s is part of opts.fitted; give one of them"):format(where, name),
                    2)
            end
        end
        local message
        fitted, message = load_fitted(where, opts.fitted)
        if not fitted then
            return nil, message, "BAD_DATA"
        elseif width > #fitted.verifiers then
            return nil, ("%s: a row has %d scores, but opts.fitted knows %d verifiers"):format(
                where, width, #fitted.verifiers), "BAD_DATA"
        end
        votes = {}
        for j, one in ipairs(fitted.verifiers) do
            votes[j] = not one.dropped and votes_of(rows, j, one, fitted.threshold)
        end
    else
        for name, value in pairs(DEFAULTS) do
            opts[name] = opts[name] or value
        end
        fitted, votes = fit(rows, width, opts)
    end
    local scores, best = json.array {}, nil
    for i = 1, #rows do
        scores[i] = log_odds(i, fitted.prior, fitted.verifiers, votes)
        if not best or scores[i] > scores[best] then
            best = i
        end
    end
    return { scores = scores, best = best, verifiers = fitted.verifiers, fitted = fitted }
end
