--- `ponder repl`: an interactive prompt that reads Lua, runs it and prints the results.

local cli = require "ponder.cli.shared.main"
local file = require "ponder.base.file"
local host = require "ponder.core.host"
local limits = require "ponder.cli.shared.limits"
local line = require "ponder.core.line"
local options = require "ponder.base.options"
local private = require "ponder.core.private"
local quote = require "ponder.quote"
local state = require "ponder.base.state"
local task = require "ponder.task"
local terminal = require "ponder.core.terminal"

local repl = cli.command({ expects = { 0, 0, "no argument" } }, {
    limits.RULES.timeout,
    cli.VERBOSE,
})

repl.summary = "an interactive Lua prompt"

repl.about = [[
ponder repl [OPTION...]

Reads Lua line by line, runs it and prints its values. ponder's modules are globals (search, task,
json, ...). A statement may take several lines. The tabulator completes names. Ctrl-C stops the
running statement, Ctrl-D exits. Tasks do not run while the prompt waits for a line. The history is
kept in $XDG_STATE_HOME/ponder/history.]]

-- Creates the file first: the line editor would make it readable by others.
local function save_history()
    local _, _, code = state.write("history", "", true)
    local path = (not code or code == "EXISTS") and state.path("history")
    if path then
        private.tighten(path)
        line.save_history(path)
        private.tighten(path)
    end
end

-- Makes ponder's modules globals, loaded on first use.
local function offer_modules()
    setmetatable(_G, {
        __index = function(_, name)
            if type(name) ~= "string" then
                return nil
            end
            local path = ("lua/ponder/%s.lua"):format((name:gsub("%.", "/")))
            if not (package.preload["ponder." .. name] or host.embedded(path)) then
                return nil
            end
            local module = require("ponder." .. name)
            rawset(_G, name, module)
            return module
        end,
    })
end

-- Compiles a text as an expression, else as statements; or nil, message, whether it is incomplete.
local function compile(text)
    local chunk = file.compile("return " .. text, "=stdin")
    local message
    if not chunk then
        chunk, message = load(text, "=stdin")
    end
    return chunk, message, message and message:find("<eof>", 1, true) ~= nil
end

-- The value of `a.b.c`, without calling metamethods (but that of _G, which loads modules).
local function value_of(path)
    local value = _G[path:match("^[^.]+")]
    for name in path:gmatch("%.([^.]+)") do
        value = type(value) == "table" and rawget(value, name) or nil
    end
    return value
end

-- The names that may follow: fields and methods of an object; without one, globals and modules.
local function names_in(object, start)
    local names = {}
    local function add(name)
        if type(name) == "string" and name:find("^[%a_][%w_]*$")
            and name:sub(1, #start) == start then
            names[name] = true
        end
    end
    if object == _G then
        for _, path in ipairs(host.embedded_names()) do
            add(path:match("^lua/ponder/([%w_]+)%.lua$"))
        end
    end
    for _ = 1, 10 do -- objects inherit from objects
        for name in next, type(object) == "table" and object or {} do
            add(name)
        end
        local meta = debug.getmetatable(object)
        object = type(meta) == "table" and rawget(meta, "__index")
    end
    return options.names(names)
end

-- For line.read: completes the name before the cursor, or prints the names that it may become.
local function complete(text)
    local path, start = text:match("([%a_][%w_.]*)[.:]([%w_]*)$")
    start = start or text:match("[%a_][%w_]*$") or ""
    local names = names_in(path and value_of(path) or not path and _G, start)
    local first, last = names[1] or start, names[#names] or start
    local same = #start
    while same < #first and first:byte(same + 1) == last:byte(same + 1) do
        same = same + 1
    end
    if #names > 1 and same == #start then
        print("\n" .. table.concat(names, "  "))
        return "", true
    end
    return first:sub(#start + 1, same)
end

-- Reads a statement of one or several lines; nil at the end of input.
local function read_statement()
    local text = line.read("> ", complete)
    if not text then
        return nil
    end
    local chunk, message, unfinished = compile(text)
    while not chunk and unfinished do
        local more = line.read(">> ", complete)
        if not more then
            break
        end
        text = text .. "\n" .. more
        chunk, message, unfinished = compile(text)
    end
    line.remember(text)
    return chunk, message
end

local function show(value)
    local meta = getmetatable(value)
    if type(value) == "table" and not (meta and meta.__tostring) then
        local fields, count = {}, 0
        for key, field in pairs(value) do
            count = count + 1
            if count <= 20 then
                fields[count] = type(key) == "string" and key .. " = " .. options.show(field)
                    or options.show(field)
            end
        end
        return "{ " .. table.concat(fields, ", ") .. (count > 20 and ", ..." or "") .. " }"
    end
    return type(value) == "string" and options.show(value) or tostring(value)
end

-- Reads and runs a statement; returns false and the exit status at the end. Ctrl-C at the prompt
-- begins a new line.
local function step()
    local ok, chunk, message = pcall(read_statement)
    if not ok then
        print()
    elseif chunk then
        local ran, err = xpcall(task.run, cli.with_traceback, function()
            local shown = table.pack(chunk())
            for i = 1, shown.n do
                shown[i] = show(shown[i])
            end
            if shown.n > 0 then
                print(quote.terminal(table.concat(shown, "\t")))
            end
        end)
        if not ran then
            cli.report_error(err)
        end
    elseif message then
        io.stderr:write(message, "\n")
    else
        return false, 0
    end
    local reason = task.stop_reason()
    if reason and reason ~= "interrupt" then
        return false, host.stop_status()
    end
    host.forget_stop()
    return true
end

function repl.run(opts)
    limits.begin(opts)
    offer_modules()
    local path = state.path("history")
    if path then
        line.load_history(path)
    end
    if terminal.is_terminal(0) then
        print("ponder " .. host.version .. ", " .. _VERSION .. "; Ctrl-D ends")
    end
    local more, status
    repeat
        more, status = step()
    until not more
    save_history()
    return status
end

repl.outside_tasks = true -- each statement has its own task.run

return repl
