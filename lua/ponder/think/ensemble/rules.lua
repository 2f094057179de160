--- The options that say how samples vote or are chosen, and when that ends: of the ensembles, of a
--- prompt in an evaluation, and of chain of thought.

local options = require "ponder.base.options"

local rules = {}

local MEASURES = { "lowest", "tail", "bottom", "mean" } -- of ponder.ensemble.confidence

rules.WARMUP = 16 -- samples that set the threshold of a vote that watches the confidence

---@type OptionSchema of self_consistency
rules.VOTE = {
    vote = { type = "string", enum = { "majority", "weighted" }, default = "majority",
        help = "how answers count" },
    confidence = { type = { "function", "string" },
        help = "weights of a weighted vote: lowest, tail, bottom, mean (of the tokens)" },
    keep = { type = "number", min = 0, max = 1, help = "share of the highest weights that votes" },
    window = { type = "integer", min = 1, help = "tokens that the confidence is the mean of" },
    warmup = { type = "integer", min = 1,
        help = "cancel streams that are less confident than so many first ones" },
    consensus = { type = "number", min = 0, max = 1, help = "share of the weight that ends it" },
    stop_at = { type = "number", min = 0.5, max = 1, help = "certainty that ends a majority vote" },
    min_samples = { type = "integer", min = 1, help = "samples before it may end" },
    eager = { type = "boolean", help = "ask ahead, and cancel what is not needed" },
    first = { type = "integer", min = 1, help = "only the first N answers vote" },
    finish = { type = "string", enum = { "time", "tokens" },
        help = "which those are: the first to arrive or the shortest" },
}

---@type OptionSchema of best_of_n
rules.BEST = {
    cost = { type = "number", min = 0, finite = true },
    min_samples = { type = "integer", min = 1 },
    tail = { type = "string", enum = { "exponential", "normal" } },
    optimism = { type = "number", min = 0, finite = true },
    enough = { type = "number" },
    eager = { type = "boolean" },
}

---Which of these options is above `n`.
---@param ... string
---@return string? message
function rules.above_n(opts, ...)
    for _, name in ipairs { ... } do
        if opts[name] and opts[name] > opts.n then
            return ("opts.%s must be at most opts.n, %d (got %d)"):format(name, opts.n, opts[name])
        end
    end
end

---What is wrong with options of a vote that do not go together.
---@return string? message
function rules.vote_problem(opts)
    local is_weighted, is_online = opts.vote == "weighted", opts.warmup or opts.consensus
    if is_online and (not is_weighted or (opts.confidence or "lowest") ~= "lowest") then
        return ("opts.%s needs vote = \"weighted\" and the confidence \"lowest\""):format(
            opts.warmup and "warmup" or "consensus")
    elseif is_online and (opts.warmup or rules.WARMUP) >= opts.n then
        return ("opts.warmup must be less than opts.n, %d (got %d)"):format(opts.n,
            opts.warmup or rules.WARMUP)
    elseif opts.confidence and not is_weighted then
        return 'opts.confidence needs vote = "weighted"'
    elseif type(opts.confidence) == "string" and not options.has(MEASURES, opts.confidence) then
        return ("opts.confidence must be a function or one of %s (got %s)"):format(
            table.concat(MEASURES, ", "), options.show(opts.confidence))
    elseif opts.keep and not is_weighted then
        return 'opts.keep needs vote = "weighted"'
    elseif opts.window and not is_online and type(opts.confidence) ~= "string" then
        return 'opts.window needs opts.confidence, "lowest" or another measure'
    elseif (opts.stop_at or opts.first) and is_weighted then
        return ("opts.%s needs vote = \"majority\""):format(opts.stop_at and "stop_at" or "first")
    elseif opts.stop_at and opts.first then
        return "give opts.stop_at or opts.first, not both"
    elseif opts.min_samples and not opts.stop_at then
        return "opts.min_samples needs opts.stop_at"
    elseif opts.eager and not opts.stop_at and not opts.consensus then
        return "opts.eager needs opts.stop_at or opts.consensus"
    elseif opts.finish and not opts.first then
        return "opts.finish needs opts.first"
    end
    return rules.above_n(opts, "first", "min_samples")
end

---What is wrong with options of a best of n that do not go together.
---@return string? message
function rules.best_problem(opts)
    local stops = opts.cost and "cost" or opts.enough and "enough"
    if opts.judge and opts.reward then
        return "opts must have judge or reward, not both"
    elseif opts.votes and (opts.reward or type(opts.judge) == "function") then
        return "opts.votes needs a judge that is a model"
    elseif stops and not opts.reward then
        return ("opts.%s needs opts.reward"):format(stops)
    elseif stops and opts.verify then
        return ("opts.%s and opts.verify both end it; give one of them"):format(stops)
    elseif opts.cost == 0 then
        return "opts.cost must be > 0, in units of reward"
    elseif (opts.tail or opts.optimism) and not opts.cost then
        return ("opts.%s needs opts.cost"):format(opts.tail and "tail" or "optimism")
    elseif (opts.eager or opts.min_samples) and not stops then
        return ("opts.%s needs opts.cost or opts.enough"):format(
            opts.eager and "eager" or "min_samples")
    end
    return rules.above_n(opts, "min_samples")
end

---Which option of a vote is given with one sample, which has nothing to vote on.
---@return string? message
function rules.needs_samples(opts)
    for _, name in ipairs(options.names(rules.VOTE)) do
        if opts.n == 1 and opts[name] ~= nil and opts[name] ~= rules.VOTE[name].default then
            return ("opts.%s needs several samples: give opts.n"):format(name)
        end
    end
end

return rules
