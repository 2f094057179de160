--- Fuzzes code that reads foreign text: mutates inputs, and keeps those that reach new lines.
---
---     make fuzz                                    # each target of spec/fuzz for FUZZ_SECONDS
---     build/ponder run --no-log spec/support/fuzz.lua NAME [SECONDS|INPUTSx] [SEED]
---
--- A target, spec/fuzz/NAME_fuzz.lua, returns:
---
---     return {
---         seeds = { "{}" },                        -- what inputs are made from
---         make = function() return text end,       -- or: makes an input by itself (math.random)
---         try = function(input) end,               -- raises for a finding; may wait
---         slow = true,                             -- an input takes long: fewer in `make test`
---     }
---
--- The corpus, spec/fuzz/corpus/NAME, is tried first: inputs that were findings once, and those
--- that reached new lines (FUZZ_KEEP=1 adds them). A finding is written to build/fuzz/NAME-HASH.
--- Which lines of ponder's Lua an input reaches is seen through a hook, in the task that tries it.

local directories = require "ponder.core.directory"
local store = require "ponder.core.store"
local task = require "ponder.task"

local build = os.getenv "PONDER_BUILD" or "build"

local MAX_STEPS = 50000000 -- of one input: more is a hang
local MAX_LENGTH = 1 << 16
local DICTIONARY = { "{", "}", "[", "]", "\"", ",", ":", "null", "true", "-1", "1e999", "0.5",
    "9223372036854775807", "\\u0000", "\\ud800", "\n", "\r\n", "\0", "\xff", "\u{202e}", "--", "=",
    "data: ", "[DONE]", "nil", "function", "end" }

local random, find = math.random, string.find -- the tested code may remove strings' methods

---------------------------------------------------------------------------------------------------
-- Inputs

local function splice(text, first, last, with)
    return text:sub(1, first - 1) .. with .. text:sub(last + 1)
end

local CHANGES = {
    function(text, at) return splice(text, at, at, string.char(random(0, 255))) end,
    function(text, at) return splice(text, at, at + random(0, 16), "") end,
    function(text, at) return splice(text, at, at - 1, DICTIONARY[random(#DICTIONARY)]) end,
    function(text, at) return splice(text, at, at, DICTIONARY[random(#DICTIONARY)]) end,
    function(text, at)
        local from = random(#text + 1)
        return splice(text, at, at - 1, text:sub(from, from + random(64)))
    end,
    function(text) return text:gsub("%d+", tostring(random(-2, 1 << 62)), 1) end,
    function(text) return text:gsub('"[^"]*"', DICTIONARY[random(#DICTIONARY)], 1) end,
    function(text, at, other) return text:sub(1, at) .. other:sub(random(#other + 1)) end,
}

local function change(inputs)
    local text = inputs[random(#inputs)]
    for _ = 1, random(4) do
        text = CHANGES[random(#CHANGES)](text, random(#text + 1), inputs[random(#inputs)])
    end
    return text:sub(1, MAX_LENGTH)
end

---------------------------------------------------------------------------------------------------
-- Trying one

local lines, line_count = {}, 0

local function on_line(line)
    local source = debug.getinfo(3, "S").source -- below this one and the hook
    if find(source, "^@ponder/") then
        local seen = lines[source] or {}
        lines[source] = seen
        if not seen[line] then
            seen[line], line_count = true, line_count + 1
        end
    end
end

-- Returns whether it succeeded, and whether it reached new lines.
local function try(target, input)
    local before, steps = line_count, 0
    debug.sethook(function(event, line)
        if event == "line" then
            on_line(line)
            steps = steps + 1
            if steps > MAX_STEPS then
                error "too many steps"
            end
        end
    end, "l")
    local ok, err = xpcall(target.try, debug.traceback, input)
    debug.sethook()
    return ok, line_count > before, err
end

local function write(directory, name, input)
    os.execute("mkdir -p " .. directory)
    local path = ("%s/%s%s"):format(directory, name, store.sha256(input):sub(1, 12))
    local file <close> = assert(io.open(path, "wb"))
    file:write(input)
    return path
end

local function report(name, input, err)
    local path = write(build .. "/fuzz", name .. "-", input)
    io.stderr:write(("%s: %s\n%s\n"):format(name, path, err))
    os.exit(1)
end

local function corpus(name)
    local inputs = {}
    local directory = "spec/fuzz/corpus/" .. name
    for _, file in ipairs(directories.files(directory) or {}) do
        local opened <close> = assert(io.open(directory .. "/" .. file.name, "rb"))
        inputs[#inputs + 1] = opened:read "a"
    end
    return inputs
end

local function main(name, limit, seed)
    local target = dofile(("spec/fuzz/%s_fuzz.lua"):format(name))
    local inputs, tried = corpus(name), 0
    table.move(target.seeds or {}, 1, #(target.seeds or {}), #inputs + 1, inputs)
    local count = math.tointeger((limit or ""):match "^(%d+)x$")
    local ends_at = not count and task.now() + (tonumber(limit) or 10)
    local given = #inputs
    math.randomseed(tonumber(seed) or 1)
    while count and tried < count or ends_at and task.now() < ends_at or tried < given do
        tried = tried + 1
        local input = tried <= given and inputs[tried] or target.make and target.make()
            or change(inputs)
        local ok, is_new, err = try(target, input)
        if not ok then
            report(name, input, err)
        elseif is_new and tried > given then
            inputs[#inputs + 1] = input
            if os.getenv "FUZZ_KEEP" then
                write("spec/fuzz/corpus/" .. name, "", input)
            end
        end
    end
    if target.finish then
        target.finish()
    end
    print(("%s: %d inputs, %d lines reached, %d inputs kept"):format(name, tried, line_count,
        #inputs))
end

main(...)
