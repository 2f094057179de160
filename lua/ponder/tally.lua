--- Sums of what replies say was used.

local tally = {}

--- Adds the counts of one usage to a sum.
---@param sum table<string, number> changed
---@param usage any a ponder.model.Usage; what is no count in it is passed over
---@return table<string, number> sum
function tally.add(sum, usage)
    for name, count in pairs(type(usage) == "table" and usage or {}) do
        if type(name) == "string" and type(count) == "number" then
            sum[name] = (sum[name] or 0) + count
        end
    end
    return sum
end

--- The tokens of one usage, prompt and reply together.
---@param usage ponder.model.Usage?
---@return integer? tokens nil: it does not say
function tally.tokens(usage)
    if not usage then
        return nil
    elseif usage.total_tokens then
        return usage.total_tokens
    elseif usage.input_tokens or usage.output_tokens then
        return (usage.input_tokens or 0) + (usage.output_tokens or 0)
    end
end

--- The total of one usage.
---@param usage ponder.model.Usage
---@return integer? total as the provider says, else prompt and reply; nil: it says only one of them
function tally.total(usage)
    return usage.total_tokens
        or usage.input_tokens and usage.output_tokens and usage.input_tokens + usage.output_tokens
end

return tally
