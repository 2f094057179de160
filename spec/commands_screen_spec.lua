-- ponder tot in a terminal: what the screen shows, wide and narrow, while it runs and at the end.

local screen = require "screen"
local shell = require "shell"

local STEPS = "script:" .. shell.root .. "/spec/fixtures/models/steps.lua"
local QUICK = { "tot", "--model", STEPS, "--max-depth", "2", "--max-nodes", "7", "Why?" }
local SLOW = { "tot", "--model", STEPS, "--batch", "2", "Why?" }

-- Three thoughts, then calls that stay in flight.
local STILL = { WAIT = "0.1", LATER = "30" }

local function env(more)
    local all = { HOME = "/nonexistent", XDG_CONFIG_HOME = "/nonexistent", WAIT = "0" }
    for name, value in pairs(more or {}) do all[name] = value end
    return all
end

-- The screen without what differs from run to run: the time, the model's directory.
local function steady(lines)
    return (table.concat(lines, "\n"):gsub("%d+%.%d s", "T s"))
end

-- Lines of the summary wrap depending on the directory's name: only what is above it counts.
local function drawing(lines)
    local text = steady(lines)
    return (text:gsub("\nponder tot: .*$", "")), text:match("\nponder tot: (.*)$")
end

describe("the tree of thoughts", function()
    it("is drawn at 80 columns, the answer last", function()
        local s <close> = screen.open(QUICK, { columns = 80, env = env() })
        local status, lines = s:finish()
        local tree, rest = drawing(lines)
        assert.equal(0, status)
        assert.equal([[
Why?
├─ 0.40  plain step
├─ 0.60* a wide one: 中文中文中文中文中文中文中文中文中文中文中文中文
│  ├─ 0.40  plain step
│  ├─ 0.70* a wide one: 中文中文中文中文中文中文中文中文中文中文中文中文
│  └─ 0.10  red ?[31mtext? and a title ?]0;pwned?
└─ 0.10  red ?[31mtext? and a title ?]0;pwned?]], tree)
        assert.truthy(rest:find("max nodes, 6 thoughts, best 0.70, 4 calls, 400 tokens, T s", 1,
            true), rest)
        assert.truthy(rest:find("scripted", 1, true))
        assert.equal("a wide one: " .. ("中文"):rep(12), lines[#lines])
    end)

    it("is drawn at 40 columns, wide characters whole", function()
        local s <close> = screen.open(QUICK, { columns = 40, env = env() })
        local _, lines = s:finish()
        assert.equal([[
Why?
├─ 0.40  plain step
├─ 0.60* a wide one: 中文中文中文中文…
│  ├─ 0.40  plain step
│  ├─ 0.70* a wide one: 中文中文中文中…
│  └─ 0.10  red ?[31mtext? and a title…
└─ 0.10  red ?[31mtext? and a title ?]…]], (drawing(lines)))
    end)

    it("is drawn without Unicode and colours if they are not wanted", function()
        local s <close> = screen.open(QUICK, { columns = 40, env = env { LC_ALL = "C",
            NO_COLOR = "1" } })
        local _, lines = s:finish()
        assert.equal("|- 0.40  plain step", lines[2])
        assert.equal("`- 0.10  red ?[31mtext? and a title ...", lines[7])
        assert.is_nil(s:colored():find("\27[", 1, true))
    end)

    it("is coloured by default", function()
        local s <close> = screen.open(QUICK, { columns = 80, env = env() })
        s:finish()
        assert.truthy(s:colored():find("\27[31m0.10", 1, true))
    end)

    it("is not written to a file", function()
        local dir <close> = shell.directory()
        local s <close> = screen.open(QUICK, { env = env(), out = dir.path .. "/out" })
        local status, lines = s:finish()
        assert.equal(0, status)
        assert.equal("Why?", lines[1])
        assert.equal("a wide one: " .. ("中文"):rep(12) .. "\n", dir:read("out"))
    end)

    it("becomes plain lines in a file and on a dumb terminal", function()
        local dir <close> = shell.directory()
        local s <close> = screen.open(QUICK, { env = env(), err = dir.path .. "/err" })
        local _, lines = s:finish()
        assert.same({ "a wide one: " .. ("中文"):rep(12) }, lines)
        assert.truthy(dir:read("err"):find("^ponder tot: 3 thoughts"))
        assert.is_nil(dir:read("err"):find("\27", 1, true))
        local dumb <close> = screen.open(QUICK, { env = env { TERM = "dumb" } })
        local _, plain = dumb:finish()
        assert.truthy(plain[1]:find("^ponder tot: 3 thoughts"))
    end)
end)

describe("the live view", function()
    it("shows the calls in flight and leaves no trace", function()
        local s <close> = screen.open(SLOW, { rows = 40, env = env { WAIT = "0.15" } })
        local lines = s:wait("2 in flight: generate %d%.%d s, generate")
        assert.equal("tot generating, 3 thoughts, best 0.60, N calls, 200 tokens, T s",
            (steady(lines):match("^[^\n]*"):gsub("%d calls", "N calls")))
        assert.equal("> a wide one: " .. ("中文"):rep(12), lines[#lines])
        assert.is_true(#lines <= 4)
        local status, final = s:finish()
        assert.equal(0, status)
        assert.equal("Why?", final[1])
        assert.is_nil(steady(final):find("in flight", 1, true))
        assert.is_nil(steady(final):find("tot generating", 1, true))
    end)

    it("fits 40 columns", function()
        local s <close> = screen.open(SLOW, { columns = 40, env = env(STILL) })
        local lines = s:wait("2 in flight: generate")
        assert.equal("tot generating, 3 thoughts, best 0.60", lines[1])
        assert.equal("> a wide one: 中文中文中文中文中文中…", lines[#lines])
        assert.is_true(#lines <= 5)
    end)

    it("keeps its place when the window is resized", function()
        local s <close> = screen.open(SLOW, { columns = 80, env = env(STILL) })
        s:wait("2 in flight: generate")
        for _, columns in ipairs { 37, 100, 24, 60 } do
            s:resize(columns, 24)
            s:wait("in flight")
            os.execute("sleep 0.25")
            local text = table.concat(s:lines(), "\n")
            local _, views = text:gsub("%f[%a]tot %a+ing", "")
            assert.equal(1, views, text)
        end
    end)

    it("continues below what a shell writes while it is stopped", function()
        local s <close> = screen.open(SLOW, { columns = 80, env = env(STILL) })
        s:wait("2 in flight: generate")
        s:suspend "\r\n[1]+  Stopped\r\n$ fg\r\nponder tot\r\n"
        s:wait("ponder tot\ntot generating")
        os.execute("sleep 0.3") -- it is drawn again, in its place
        local text = table.concat(s:lines(), "\n")
        assert.truthy(text:find("[1]+  Stopped\n$ fg\nponder tot\ntot generating", 1, true), text)
        local _, views = text:gsub("\nponder tot\ntot generating", "")
        assert.equal(1, views, text)
    end)

    it("ends with the best so far at Ctrl-C", function()
        local s <close> = screen.open(SLOW, { columns = 60, env = env { LATER = "30" } })
        s:wait("3 thoughts, best 0.60")
        s:press("C-c")
        local status, lines = s:finish()
        local tree, rest = drawing(lines)
        assert.equal(130, status)
        assert.equal([[
Why?
├─ 0.40  plain step
├─ 0.60* a wide one: 中文中文中文中文中文中文中文中文中文…
└─ 0.10  red ?[31mtext? and a title ?]0;pwned?]], tree)
        assert.truthy(rest:find("^interrupted, 3 thoughts"), rest)
        assert.truthy(rest:find("the best so far:\n"), rest)
    end)
end)
