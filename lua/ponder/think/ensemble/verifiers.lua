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

-- The votes of a verifier: for each row true, false, or nil without a score. false: it is dropped.
local function votes_of(rows, column, verifier, threshold)
    local votes, width = {}, not verifier.dropped and verifier.max - verifier.min
    for i, row in ipairs(width and rows or {}) do
        if row[column] then
            votes[i] = (row[column] - verifier.min) / width >= threshold
        end
    end
    return width and votes
end

-- The logarithm of the odds that a row is right.
local function log_odds(row, prior, verifiers, votes)
    local sum = log(prior / (1 - prior))
    for j, verifier in ipairs(verifiers) do
        if votes[j] and votes[j][row] ~= nil then
            sum = sum + (votes[j][row] and verifier.yes or verifier.no)
        end
    end
    return sum
end

-- What is known of a verifier before its weights are learnt, and its votes.
local function first_look(rows, column, opts)
    local given, yes, one = 0, 0, { dropped = false, yes = 0.0, no = 0.0 }
    for _, row in ipairs(rows) do
        local x = row[column]
        one.min = x and math.min(one.min or x, x) or one.min
        one.max = x and math.max(one.max or x, x) or one.max
    end
    one.dropped = not one.min or one.min == one.max
    local votes = votes_of(rows, column, one, opts.threshold)
    for _, vote in pairs(votes or {}) do
        given, yes = given + 1, yes + (vote and 1 or 0)
    end
    one.dropped = not votes or yes / given < opts.drop or yes / given > 1 - opts.drop
    return one, not one.dropped and votes
end

-- Learns the verifiers' weights: `fitted`, and their votes.
local function fit(rows, width, opts)
    local n, verifiers, votes, p, prior = #rows, json.array {}, {}, {}, 0.5
    for j = 1, width do
        verifiers[j], votes[j] = first_look(rows, j, opts)
    end
    for i = 1, n do
        local yes, given = 0, 0
        for j = 1, width do
            if votes[j] and votes[j][i] ~= nil then
                given, yes = given + 1, yes + (votes[j][i] and 1 or 0)
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
            local right, right_yes, wrong, wrong_no = 0.0, 0.0, 0.0, 0.0
            for i = 1, votes[j] and n or 0 do
                local vote = votes[j][i]
                if vote ~= nil then
                    right, wrong = right + p[i], wrong + (1 - p[i])
                    right_yes = right_yes + (vote and p[i] or 0.0)
                    wrong_no = wrong_no + (vote and 0.0 or 1 - p[i])
                end
            end
            if votes[j] then
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
            votes[j] = votes_of(rows, j, one, fitted.threshold)
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
