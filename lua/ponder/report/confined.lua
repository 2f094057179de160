--- The flags of `--untrusted`.

local host = require "ponder.core.host"
local text_of = require "ponder.report.text"

local untrusted -- ponder.untrusted, loaded when it is needed

local confined = {}

local TIMEOUT_S = 600 -- where none is given
local ALLOWING = { "allow_model", "allow_read", "weak_isolation" }

local stdout = io.stdout

---What is wrong with these flags. Without a time of its own, the run gets one.
---@param given table the flags
---@return string? mistake
function confined.mistake(given)
    if not given.untrusted then
        for _, name in ipairs(ALLOWING) do
            if given[name] then
                return ("--%s is for --untrusted"):format(name:gsub("_", "-"))
            end
        end
        return nil
    end
    if given.allow_model and not (given.max_calls or given.max_total_tokens or given.max_cost) then
        return "--untrusted: --allow-model needs a budget: --max-calls, --max-total-tokens or "
            .. "--max-cost"
    end
    untrusted = require "ponder.untrusted"
    local missing = untrusted.missing()
    if missing[1] and not given.weak_isolation then
        return ("--untrusted: this kernel has no %s (see ponder doctor); --weak-isolation runs it "
            .. "all the same"):format(table.concat(missing, " and no "))
    end
    given.timeout = given.timeout or TIMEOUT_S
end

-- What a policy prints may move a terminal's cursor.
local function write(output)
    stdout:write(host.is_terminal(1) and text_of.safe(output) or output)
end

---A function that runs a policy in a process of its own, as the chunk of a script.
---@param text string
---@param name string
---@param arguments string[]
---@param given table the flags; `refused` becomes what ended it, if something did
---@return function
function confined.chunk(text, name, arguments, given)
    local steps = given.max_steps
    given.max_steps = nil -- the policy's, not ours
    return function()
        local value, message, code = untrusted.run(text, name, arguments, write, {
            models = given.allow_model or {}, directories = given.allow_read or {},
            memory_mb = given.max_memory_mb, max_steps = steps,
            cpu_seconds = math.ceil(given.timeout) + 1 })
        if message then
            given.refused = code == "ERROR" and message or ("%s [%s]"):format(message, code)
        end
        return value
    end
end

return confined
