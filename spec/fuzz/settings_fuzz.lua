-- Prompt files, and files of settings: each is refused with its position, or gives a value, and
-- stays within its limits. The first byte selects the kind.

local pure = require "ponder.base.pure"

local SEEDS = {
    [[0return { models = { fast = "openai:gpt-4o-mini" }, api_key = "$NAME", temperature = 0.5 }]],
    [[0return { ["openai:*"] = { input = 2.5, output = 1e1 }, x = "a" .. "b", y = -(1) }]],
    [[1local p = {} function p.generate(context) return { { role = "user",
        content = context:quote("q", context.prompt or "x") .. ("y"):rep(3) } } end return p]],
    [[1return { generate = function() return string.format("%s", { next }) end,
        judge = function(c) return pcall(error, setmetatable({}, { __index = c })) end }]],
    [[1local t = {} for i = 1, 10 do t[i] = i end table.sort(t, function(a, b) return a > b end)
        return { x = function() return select("#", table.unpack(t)) end }]],
}

local CONTEXT = { prompt = "a question", quote = function(_, tag, text)
    return ("<%s>%s</%s>"):format(tag, tostring(text), tag)
end }

-- What the environment of a file must not change.
local function is_whole()
    return string.format("%d", 3) == "3" and ("x"):rep(2) == "xx" and #table.pack(1, 2) == 2
        and math.max(1, 2) == 2 and type(os.execute) == "function"
end

local function try(input)
    local text = input:sub(2)
    if input:byte() == 48 then
        pcall(pure.data, text, "@config.lua")
    else
        local chunk = pure.load(text, "@prompts/x.lua")
        local ok, prompts = pcall(pure.call, chunk or error)
        for _, f in pairs(ok and type(prompts) == "table" and prompts or {}) do
            if type(f) == "function" then
                pure.call(f, CONTEXT)
            end
        end
    end
    assert(is_whole(), "it has changed Lua's library")
end

return { seeds = SEEDS, try = try }
