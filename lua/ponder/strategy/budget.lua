--- What a run may spend: calls and tokens. Each call is reserved before it is sent, so that calls
--- in flight cannot overshoot together, and settled when it is over. Time is the runner's.

local json = require "ponder.json"

local budget = {}

local BYTES_PER_TOKEN = 3 -- on the safe side, as ponder.model reckons

local Budget = {}
Budget.__index = Budget

---@param limits {max_calls: integer?, max_tokens: integer?}
function budget.new(limits)
    return setmetatable({ limits = limits, calls = 0, tokens = 0, reserved = 0, usage = {} },
        Budget)
end

---Sets aside what a call may need.
---@param messages ponder.model.Message[]
---@param reply_tokens integer? most that its reply may have; nil: counted when it is there
---@return integer? tokens set aside; nil: it may not be sent
---@return string? message
function Budget:reserve(messages, reply_tokens)
    local limits = self.limits
    if limits.max_calls and self.calls >= limits.max_calls then
        return nil, ("the budget of %d calls is spent"):format(limits.max_calls)
    end
    local tokens = 0
    if limits.max_tokens then
        tokens = #json.encode(messages) // BYTES_PER_TOKEN + 1 + (reply_tokens or 0)
        if self.tokens + self.reserved + tokens > limits.max_tokens then
            return nil, ("the budget of %d tokens is spent: %d used, and the next call may need %d")
                :format(limits.max_tokens, self.tokens + self.reserved, tokens)
        end
    end
    self.calls = self.calls + 1
    self.reserved = self.reserved + tokens
    return tokens
end

---What a call came to.
---@param reserved integer what `reserve` gave
---@param usage ponder.model.Usage? nil: the provider did not say, and the estimate counts
function Budget:settle(reserved, usage)
    self.reserved = self.reserved - reserved
    for name, count in pairs(usage or {}) do
        if type(count) == "number" then
            self.usage[name] = (self.usage[name] or 0) + count
        end
    end
    local both = usage and (usage.input_tokens or 0) + (usage.output_tokens or 0)
    self.tokens = self.tokens + (usage and (usage.total_tokens or both) or reserved)
end

return budget
