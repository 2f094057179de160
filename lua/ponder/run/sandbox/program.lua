--- Values as bytes, and the program's side of ponder.sandbox:
---
---     ponder.sandbox                    a process that may only compute (ponder.core.confine)
---     steps, code, globals as bytes --> a Lua state of its own: library, globals, the program
---     results <-- room, bytes     <---- results as bytes, or why there are none

local confine = require "ponder.core.confine"
local loop = require "ponder.core.loop"
local task = require "ponder.task"

local dump = string.dump -- under --untrusted it is removed, and the parent performs programs

-- Also runs in the program's state, as bytecode: it uses nothing of this file. What it calls is in
-- locals, since the program may change the library.
local function make()
    local assert, error, load, math_type, next = assert, error, load, math.type, next
    local pack, pcall, rawset, select, type = table.pack, pcall, rawset, select, type
    local byte, format, sub = string.byte, string.format, string.sub
    local to_bytes, from_bytes = string.pack, string.unpack
    local concat, unpack = table.concat, table.unpack

    local MAX_DEPTH, SHORT, MAX_PATH = 100, 40, 150
    local CLOSE = byte "}"

    local function show_key(key)
        if type(key) == "string" then
            return "." .. sub(key, 1, 40)
        elseif type(key) == "number" then
            return format(math_type(key) == "integer" and "[%d]" or "[%.14g]", key)
        end
        return "[" .. type(key) .. "]"
    end

    local function within(key, problem)
        if #problem < MAX_PATH then
            return key .. problem
        end
        return sub(problem, 1, 3) == "..." and problem or "..." .. problem
    end

    ---Writes values: nil, booleans, numbers, strings, and tables of these without metatables.
    ---Tables and long strings are written once, so that what is shared stays shared.
    ---@param values table
    ---@param n integer
    ---@return string? bytes
    ---@return string? problem `.a[1].b: a function cannot be copied`
    ---@return integer? index of the value
    local function encode(values, n)
        local parts, size, known, count = {}, 0, {}, 0
        local function put(text)
            size = size + 1
            parts[size] = text
        end
        local function put_shared(value)
            if known[value] then
                put(to_bytes("<c1I4", "r", known[value]))
                return true
            end
            count = count + 1
            known[value] = count
        end
        local function write(value, depth)
            local kind = type(value)
            if kind == "number" then
                put(math_type(value) == "integer" and to_bytes("<c1i8", "i", value)
                    or to_bytes("<c1d", "d", value))
            elseif kind == "string" then
                if #value <= SHORT or not put_shared(value) then
                    put(to_bytes("<c1s4", "s", value))
                end
            elseif kind == "table" then
                if known[value] == false then
                    return ": the table contains itself"
                elseif depth > MAX_DEPTH then
                    return ": tables are nested too deeply (more than 100)"
                elseif put_shared(value) then
                    return
                end
                local number = known[value]
                known[value] = false
                put "{"
                for key, field in next, value do
                    local problem = write(key, depth + 1)
                    if problem then
                        return " (a key)" .. problem
                    end
                    problem = write(field, depth + 1)
                    if problem then
                        return within(show_key(key), problem)
                    end
                end
                put "}"
                known[value] = number
            elseif kind == "nil" or kind == "boolean" then
                put(value and "t" or value == nil and "n" or "f")
            else
                return format(": a %s cannot be copied", kind)
            end
        end
        for i = 1, n do
            local problem = write(values[i], 1)
            if problem then
                return nil, problem, i
            end
        end
        return concat(parts)
    end

    ---Reads values from bytes that may come from anybody; raises if they are malformed.
    ---@param text string
    ---@param at integer
    ---@param room integer bytes of memory that the values may take
    ---@return table values with `n`; nil: they take more
    local function decode(text, at, room)
        local known, count = {}, 0
        local function keep(value)
            count = count + 1
            known[count] = value
            return value
        end
        local function read(depth)
            local value
            local kind = sub(text, at, at)
            at = at + 1
            if kind == "i" or kind == "d" then
                value, at = from_bytes(kind == "i" and "<i8" or "<d", text, at)
            elseif kind == "s" then
                value, at = from_bytes("<s4", text, at)
                room = room - 32 - #value
                return #value > SHORT and keep(value) or value
            elseif kind == "r" then
                value, at = from_bytes("<I4", text, at)
                return assert(known[value])
            elseif kind == "{" then
                assert(depth <= MAX_DEPTH)
                value = keep {}
                room = room - 64
                local last = 0
                while byte(text, at) ~= CLOSE and room >= 0 do
                    local key = read(depth + 1)
                    local is_next = key == last + 1
                    last, room = is_next and key or last, room - (is_next and 24 or 56)
                    rawset(value, key, read(depth + 1))
                end
                at = at + 1
            elseif kind == "t" or kind == "f" then
                return kind == "t"
            elseif kind ~= "n" then
                error "malformed"
            end
            return value
        end
        local values = { n = 0 }
        while at <= #text and room >= 0 do
            values.n = values.n + 1
            assert(values.n <= 1000)
            values[values.n] = read(1)
        end
        return room >= 0 and values or nil
    end

    -- Lua's pure library: what reaches outside, or counts no steps, is removed or replaced.
    local function set_library(charge)
        local G, create, wrap, time = _G, coroutine.create, coroutine.wrap, os.time
        for _, name in next, { "print", "warn", "collectgarbage", "dofile", "loadfile" } do
            G[name] = nil
        end
        G.string.dump = nil
        math.randomseed(0)
        function G.load(text, name, _, ...)
            return load(text, name, "t", ...)
        end
        -- A new coroutine is charged the steps that it may run uncounted.
        function G.coroutine.create(f)
            charge()
            return create(f)
        end
        function G.coroutine.wrap(f)
            charge()
            return wrap(f)
        end
        G.os = { clock = os.clock, difftime = os.difftime, time = function(when)
            if when ~= nil then
                error("os.time: a sandbox has it only without arguments", 2)
            end
            return time()
        end }
    end

    ---Runs a program; called once in its process.
    ---@param payload string
    ---@param limit fun(steps: integer?) begins, and ends, to count steps and memory
    ---@param charge fun()
    ---@return string reply
    local function serve(payload, limit, charge)
        local steps, code, at = from_bytes("<i8s4", payload)
        local globals = decode(payload, at, math.maxinteger)[1]
        set_library(charge)
        for name, value in next, globals do
            _G[name] = value
        end
        globals, payload = nil, nil -- luacheck: ignore 311
        limit(steps)
        local f, message = load(code, "=sandbox", "t")
        local results = f and pack(pcall(f)) or { false, message }
        limit()
        message = results[2]
        if not results[1] and message == "not enough memory" then -- for a buffer of the library
            return to_bytes("s1", "MEMORY")
        elseif not results[1] then
            return to_bytes("s1", "ERROR") .. (type(message) == "string" and message
                or format("the program raised a %s value", type(message)))
        elseif results.n > 1001 then
            return to_bytes("s1", "ERROR") .. "too many results (more than 1000)"
        end
        local text, problem, i = encode({ select(2, unpack(results, 1, results.n)) },
            results.n - 1)
        return text and to_bytes("s1", "") .. text
            or to_bytes("s1", "ERROR") .. format("result %d%s", i, problem)
    end

    return encode, decode, serve
end

local program = {}

program.encode, program.decode = make()

local idle -- a process that waits for the next program
local owner = setmetatable({}, { __mode = "v" }) -- its run, or this module outside of any

---Makes this process run the programs that its parent asks for; does not return.
function program.serve()
    confine.serve(dump(make))
end

---Runs a program in a process that only runs programs of this run, and none after one that failed.
---@param max_bytes integer of the reply
---@param apart? boolean in a process of its own that has nothing of this one's memory
---@return string? reply nil: the process did not reply
---@return string? message "TIMEOUT", "TOO_LARGE" (the reply), or why
function program.perform(payload, memory_mb, seconds, max_bytes, apart)
    local run = task.context "run" or program
    local child, reply, message = idle, nil, nil
    idle = nil
    if child and (apart or owner.run ~= run) then
        child:kill()
        child = nil
    end
    if apart then
        child, message = confine.spawn()
        if child then
            child:send '{"programs":true}'
        end
    elseif not child then
        child, message = confine.start(dump(make))
    end
    local _ <close> = setmetatable({}, { __close = function() -- also if a stop is raised
        if child and idle ~= child then
            child:kill()
        end
    end })
    if not message then
        local deadline, request = loop.now() + seconds, string.pack("<I8", memory_mb << 20)
        reply, message = child:send(request .. payload, seconds)
        if reply then
            reply, message = child:receive(math.max(deadline - loop.now(), 1e-3), max_bytes)
        end
    end
    if reply and reply:byte() == 0 and not apart then
        idle, owner.run = child, run
    end
    return reply, message
end

return program
