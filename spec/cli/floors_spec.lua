-- No file requires a higher floor, and there are no cycles: the `#include` and `require` lines of
-- src/ and lua/ against the floors of the design, which are their directories.

local shell = require "shell"

local read = shell.read

-- Each may use its own floor and those below, but not other floors of the same height.
local C_FLOORS = { core = 1, loop = 2, net = 3, http = 3, queue = 3, store = 3, api = 4, memory = 5,
    guard = 5, isolate = 5, line = 5, signals = 5, hostlib = 6, host = 7, main = 8 }

-- The directories of lua/ponder, each of which knows only those before it. C modules
-- (ponder.core.*) lie below them all. A public module, which is a file of its own or the door of a
-- room, stands as high as what it requires.
local LUA_FLOORS = { "base", "run", "model", "think", "judge", "serve", "show", "cli" }

-- What the lower floors of C must do without: the state of Lua, the network, files, the clock.
local FORBIDDEN = {
    core = { "^lua%.h$", "^lauxlib%.h$", "^lualib%.h$", "^curl/", "^sqlite3%.h$", "^unistd%.h$",
        "^time%.h$", "^sys/", "^fcntl%.h$", "^pthread%.h$", "^threads%.h$", "^signal%.h$" },
    loop = { "^lua%.h$", "^lauxlib%.h$", "^lualib%.h$", "^curl/", "^sqlite3%.h$" },
    net = { "^lua%.h$", "^lauxlib%.h$", "^lualib%.h$", "^sqlite3%.h$" },
    http = { "^lua%.h$", "^lauxlib%.h$", "^lualib%.h$", "^curl/", "^sqlite3%.h$" },
    queue = { "^lua%.h$", "^lauxlib%.h$", "^lualib%.h$", "^sqlite3%.h$" },
    store = { "^lua%.h$", "^lauxlib%.h$", "^lualib%.h$", "^curl/" },
}

local function files(dir, pattern)
    return shell.lines(shell.output(("find %s -name '%s' | LC_ALL=C sort"):format(dir, pattern)))
end

-------------------------------------------------------------------------------
-- What a file uses: a list of names

--- Headers in quotes, and headers in angle brackets.
local function included(text)
    local own, foreign = {}, {}
    for line in text:gmatch "[^\n]+" do
        own[#own + 1] = line:match '^%s*#%s*include%s*"([^"]+)"'
        foreign[#foreign + 1] = line:match "^%s*#%s*include%s*<([^>]+)>"
    end
    return own, foreign
end

--- Modules of ponder's own; "ponder.cli." for `require("ponder.cli." .. name)`.
local function required(text)
    local names = {}
    for line in text:gmatch "[^\n]+" do
        if not line:find "^%s*%-%-" then
            for name in line:gmatch "require%s*%(?%s*[\"'](ponder[%w_.]*)[\"']" do
                names[#names + 1] = name
            end
        end
    end
    return names
end

-------------------------------------------------------------------------------
-- Graphs: name -> list of the names that it uses

--- A cycle as a list of names, first and last the same; nil if there is none.
local function cycle(graph)
    local done, place, path = {}, {}, {}
    local function visit(name)
        if place[name] then
            local found = table.move(path, place[name], #path, 1, {})
            found[#found + 1] = name
            return found
        elseif done[name] then
            return nil
        end
        path[#path + 1] = name
        place[name] = #path
        for _, known in ipairs(graph[name] or {}) do
            local found = visit(known)
            if found then
                return found
            end
        end
        path[#path], place[name], done[name] = nil, nil, true
    end
    local names = {}
    for name in pairs(graph) do
        names[#names + 1] = name
    end
    table.sort(names)
    for _, name in ipairs(names) do
        local found = visit(name)
        if found then
            return found
        end
    end
end

--- The steps that are not allowed, as "a -> b".
local function upward_uses(graph, allowed)
    local found = {}
    for name, list in pairs(graph) do
        for _, known in ipairs(list) do
            if not allowed(name, known) then
                found[#found + 1] = name .. " -> " .. known
            end
        end
    end
    table.sort(found)
    return found
end

-------------------------------------------------------------------------------
-- C, by the path of a file below src

local function c_area(path)
    return path:match "^(%w+)/" or path:match "^(%w+)%.[ch]$"
end

local function c_floor(path)
    return C_FLOORS[c_area(path)]
end

local function c_allowed(path, known)
    local from, to = c_floor(path), c_floor(known)
    return from ~= nil and to ~= nil and (to < from or c_area(path) == c_area(known))
end

local function c_graph()
    local graph, foreign_of = {}, {}
    for _, path in ipairs(files("src", "*.[ch]")) do
        local name = path:gsub("^src/", "")
        graph[name], foreign_of[name] = included(read(path))
    end
    return graph, foreign_of
end

-------------------------------------------------------------------------------
-- Lua

local function module_of(path)
    return (path:gsub("^lua/", ""):gsub("%.lua$", ""):gsub("/", "."))
end

local HEIGHTS = { core = 0 }
for height, name in ipairs(LUA_FLOORS) do
    HEIGHTS[name] = height
end

-- The floor of each module of a graph, and of what it requires.
local function lua_floors(graph)
    local floors, visiting = {}, {}
    local function floor(name)
        local height = HEIGHTS[name:match "^ponder%.([%w_]*)%."]
        if height or floors[name] or visiting[name] then
            return height or floors[name] or 0
        elseif name:find "%.$" then -- require("ponder." .. name) may be any
            return name == "ponder." and #LUA_FLOORS or floor(name:sub(1, -2))
        end
        visiting[name], height = true, 1
        for _, known in ipairs(graph[name] or {}) do
            height = math.max(height, floor(known))
        end
        visiting[name], floors[name] = nil, height
        return height
    end
    return floor
end

local function lua_allowed(graph)
    local floor = lua_floors(graph)
    return function(name, known)
        return floor(known) <= floor(name)
    end
end

local function lua_graph()
    local graph = {}
    for _, path in ipairs(files("lua", "*.lua")) do
        if not path:find "^lua/ponder/meta/" then
            graph[module_of(path)] = required(read(path))
        end
    end
    return graph
end

-------------------------------------------------------------------------------

describe("the floors of src", function()
    local graph, foreign_of = c_graph()

    it("are all listed", function()
        local count = 0
        for name in pairs(graph) do
            assert.is_truthy(c_floor(name), name .. ": say in this spec on which floor it stands")
            count = count + 1
        end
        assert.is_true(count > 10)
    end)

    it("do not require a higher floor", function()
        assert.is_true(#upward_uses(graph, function() return false end) > 100)
        assert.same({}, upward_uses(graph, c_allowed))
    end)

    it("have no cycle", function()
        assert.equal("", table.concat(cycle(graph) or {}, " -> "))
    end)

    it("use what only Linux has beside a fallback", function()
        local only = { "<linux/", "<seccomp", "<malloc", "<sys/prctl", "<sys/syscall", "<sys/vfs",
            "<sys/epoll", "<sys/eventfd", "<sys/timerfd", "SOCK_CLOEXEC", "SOCK_NONBLOCK", "pipe2(",
            "close_range(", "renameat2(", "sigabbrev_np(", "sigtimedwait(", "timer_create(",
            '"/proc/', "getrandom(", "memfd_create(", "pidfd" }
        local found = {}
        for name in pairs(graph) do
            local text = read("src/" .. name):gsub("\n#ifdef __SANITIZE.-\n#endif", "")
            for _, word in ipairs(only) do
                if text:find(word, 1, true) and not text:find("#if SYSTEM_IS_LINUX", 1, true) then
                    found[#found + 1] = name .. ": " .. word
                end
            end
        end
        assert.same({}, found)
    end)

    it("use no libraries of other floors", function()
        for name, headers in pairs(foreign_of) do
            for _, pattern in ipairs(FORBIDDEN[c_area(name)] or {}) do
                for _, header in ipairs(headers) do
                    assert.is_nil(header:find(pattern), name .. " includes <" .. header .. ">")
                end
            end
        end
    end)
end)

describe("the floors of lua", function()
    local graph = lua_graph()

    it("are the directories; beside them are only public modules", function()
        local public = {}
        for name in read("scripts/reference/pages.lua"):match("local PUBLIC = (%b{})"):gmatch(
            '"([%w_.]+)"') do
            public["ponder." .. name] = true
        end
        local count = 0
        for name in pairs(graph) do
            count = count + 1
            local own = name:match "^ponder%.strategy%.(%l+)$" or name:match "^ponder%.(%l+)$"
            assert.is_true(HEIGHTS[name:match "^ponder%.([%w_]*)%."] ~= nil or public[name]
                or ({ cot = true, got = true, tot = true, trm = true })[own], name)
        end
        assert.is_true(count > 200)
    end)

    it("do not require a higher floor", function()
        assert.is_true(#upward_uses(graph, function() return false end) > 1000)
        assert.same({}, upward_uses(graph, lua_allowed(graph)))
    end)

    it("have no cycle", function()
        assert.equal("", table.concat(cycle(graph) or {}, " -> "))
    end)

    it("apply to the prompts too, which use only the lowest", function()
        for _, path in ipairs(files("prompts", "*.lua")) do
            for _, known in ipairs(required(read(path))) do
                assert.equal(1, lua_floors(graph)(known), path .. " requires " .. known)
            end
        end
    end)
end)

-- Each strategy brings its own prompts, samples, options, texts and views: nothing else names
-- it, except the list of all strategies.
describe("a strategy", function()
    local LISTS = { ["ponder.base.builtin"] = true, -- its `strategies`
        ["ponder.operations.methods"] = true, -- methods of a paper that have the same names
        ["ponder.cli.ask"] = true, -- its default
        ["ponder.cli.init"] = true } -- the text of an example

    it("is named only in its own files", function()
        for _, path in ipairs(files("lua/ponder", "*.lua")) do
            local name = path:gsub("^lua/", ""):gsub("%.lua$", ""):gsub("/", ".")
            for line in read(path):gmatch "[^\n]+" do
                for word in line:gsub("^%s*%-%-.*", ""):gmatch "[\"']([%l.]+)[\"']" do
                    local known = word:match "^ponder%.strategy%.(%l+)$" or word
                    if LISTS[name] or name:find("%f[%l]" .. known .. "%f[%A]") then
                        known = ""
                    end
                    assert.is_nil(({ tot = 1, got = 1, trm = 1, cot = 1 })[known],
                        path .. " knows " .. word)
                end
            end
        end
    end)
end)
