--- The options that say how samples vote or are chosen, and when that ends: of the ensembles, and
--- of a prompt in an evaluation.

local options = require "ponder.base.options"

local rules = {}

rules.WARMUP = 16 -- samples that set the threshold of a vote that watches the confidence

local MEASURES = { "lowest", "tail", "bottom", "mean" } -- of ponder.ensemble.confidence

---@type OptionSchema of self_consistency
rules.VOTE = {
    vote = { type = "string", enum = { "majority", "weighted" }, default = "majority" },
    confidence = { type = { "function", "string" } },
    keep = { type = "number", min = 0, max = 1 },
    window = { type = "integer", min = 1 },
    warmup = { type = "integer", min = 1 },
    consensus = { type = "number", min = 0, max = 1 },
    stop_at = { type = "number", min = 0.5, max = 1 },
    min_samples = { type = "integer", min = 1 },
    eager = { type = "boolean" },
    first = { type = "integer", min = 1 },
    finish = { type = "string", enum = { "time", "tokens" } },
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

---Raises what is wrong with options of a vote that do not go together.
---@param where string
---@param opts table
---@param level integer the error level: 1 is this function
function rules.check_vote(where, opts, level)
    local function refuse(message)
        error(where .. ": " .. message, level + 2)
    end
    local is_weighted, is_online = opts.vote == "weighted", opts.warmup or opts.consensus
    if is_online and (not is_weighted or (opts.confidence or "lowest") ~= "lowest") then
        refuse(("opts.%s needs vote = \"weighted\" and the confidence \"lowest\""):format(
            opts.warmup and "warmup" or "consensus"))
    elseif is_online and (opts.warmup or rules.WARMUP) >= opts.n then
        refuse(("opts.warmup must be less than opts.n, %d (got %d)"):format(opts.n,
            opts.warmup or rules.WARMUP))
    elseif opts.confidence and not is_weighted then
        refuse 'opts.confidence needs vote = "weighted"'
    elseif type(opts.confidence) == "string" and not options.has(MEASURES, opts.confidence) then
        refuse(("opts.confidence must be a function or one of %s (got %s)"):format(
            table.concat(MEASURES, ", "), options.show(opts.confidence)))
    elseif opts.keep and not is_weighted then
        refuse 'opts.keep needs vote = "weighted"'
    elseif opts.window and not is_online and type(opts.confidence) ~= "string" then
        refuse 'opts.window needs opts.confidence, "lowest" or another measure'
    elseif (opts.stop_at or opts.first) and is_weighted then
        refuse(("opts.%s needs vote = \"majority\""):format(opts.stop_at and "stop_at" or "first"))
    elseif opts.stop_at and opts.first then
        refuse "give opts.stop_at or opts.first, not both"
    elseif opts.min_samples and not opts.stop_at then
        refuse "opts.min_samples needs opts.stop_at"
    elseif opts.eager and not opts.stop_at and not opts.consensus then
        refuse "opts.eager needs opts.stop_at or opts.consensus"
    elseif opts.finish and not opts.first then
        refuse "opts.finish needs opts.first"
    end
    rules.check_counts(where, opts, level + 1, "first", "min_samples")
end

---Raises which of these options is above `n`.
---@param where string
---@param opts table
---@param level integer the error level: 1 is this function
---@param ... string
function rules.check_counts(where, opts, level, ...)
    for _, name in ipairs { ... } do
        if opts[name] and opts[name] > opts.n then
            error(("%s: opts.%s must be at most opts.n, %d (got %d)"):format(where, name, opts.n,
                opts[name]), level + 1)
        end
    end
end

---Raises what is wrong with options of a best of n that do not go together.
---@param where string
---@param opts table
---@param level integer the error level: 1 is this function
function rules.check_best(where, opts, level)
    local stops = opts.cost and "cost" or opts.enough and "enough"
    if opts.judge and opts.reward then
        error(where .. ": opts must have judge or reward, not both", level + 1)
    elseif opts.votes and (opts.reward or type(opts.judge) == "function") then
        error(where .. ": opts.votes needs a judge that is a model", level + 1)
    elseif stops and not opts.reward then
        error(("%s: opts.%s needs opts.reward"):format(where, stops), level + 1)
    elseif stops and opts.verify then
        error(("%s: opts.%s and opts.verify both end it; give one of them"):format(where, stops),
            level + 1)
    elseif opts.cost == 0 then
        error(where .. ": opts.cost must be > 0, in units of reward", level + 1)
    elseif (opts.tail or opts.optimism) and not opts.cost then
        error(("%s: opts.%s needs opts.cost"):format(where, opts.tail and "tail" or "optimism"),
            level + 1)
    elseif (opts.eager or opts.min_samples) and not stops then
        error(("%s: opts.%s needs opts.cost or opts.enough"):format(where,
            opts.eager and "eager" or "min_samples"), level + 1)
    end
    rules.check_counts(where, opts, level + 1, "min_samples")
end

return rules
