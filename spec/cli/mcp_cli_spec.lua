-- --mcp of the commands that call models: tools of servers that the user names.

local json = require "ponder.json"
local mcp = require "ponder.mcp"
local shell = require "shell"
local task = require "ponder.task"

local SERVER = [[
return {
    add = { parameters = { type = "object", required = { "a", "b" }, properties = {
        a = { type = "number" }, b = { type = "number" } } },
        run = function(r) return { sum = r.arguments.a + r.arguments.b } end },
    env = function() return os.getenv "GREETING" end,
}]]

-- Calls the first tool named in the question; then answers with its result.
local MODEL = [[
return function(request)
    local messages = request.messages
    local last = messages[#messages]
    if last.role == "tool" then
        return { text = "<answer>\n" .. last.content .. "\n</answer>" }
    end
    for _, tool in ipairs(request.options.tools or {}) do
        if last.content:find("use " .. tool.name .. "%f[^%w_]") then
            return { tool_calls = { { name = tool.name, arguments = { a = 2, b = 3,
                prompt = "" } } } }
        end
    end
    local names = {}
    for i, tool in ipairs(request.options.tools or {}) do names[i] = tool.name end
    return "<answer>\n" .. table.concat(names, " ") .. "\n</answer>"
end]]

local FAKE = shell.root .. "/spec/support/mcp_server.lua"

local dir, server

local function ponder(arguments, env)
    env = env or {}
    env.XDG_STATE_HOME = env.XDG_STATE_HOME or dir.path .. "/state"
    env.XDG_CONFIG_HOME, env.PONDER_MODEL = dir.path .. "/config", "script:m.lua"
    return dir:ponder(arguments, { env = env })
end

local function fake(mode)
    return ("%s --no-log %s %s %s"):format(shell.executable, FAKE, mode, dir.path .. "/received")
end

describe("--mcp", function()
    before_each(function()
        dir = shell.directory { ["p.lua"] = SERVER, ["m.lua"] = MODEL }
        server = shell.executable .. " mcp p.lua"
    end)
    after_each(function() dir:__close() end)

    it("gives a strategy the tools of a server, whose results are logged", function()
        for _, command in ipairs { "cot", "chat" } do
            local log = command .. ".db"
            local r = ponder { command, "--log", log, "--mcp", server, "use add, please" }
            assert.equal(0, r.status)
            assert.matches('{"sum":5}', r.out)
            os.rename(dir.path .. "/p.lua", dir.path .. "/gone.lua")
            local again = ponder { "replay", log }
            os.rename(dir.path .. "/gone.lua", dir.path .. "/p.lua")
            assert.equal(0, again.status)
            assert.equal(r.out, again.out)
        end
    end)

    it("does what scripts/agent.lua does in Lua", function()
        local script = shell.root .. "/scripts/agent.lua"
        local r = ponder { "run", "--no-log", script, "script:m.lua", server, "use add" }
        assert.same({ 0, '{"sum":5}\n', "calls add\n" }, { r.status, r.out, r.err })
        r = ponder { "run", "--no-log", script, "--model", "script:m.lua", "exit 3", "use add" }
        assert.same({ 1, "agent: exit 3: the server ended with status 3 [LOST]\n" },
            { r.status, r.err })
    end)

    it("takes several servers and tools of a file, with distinct names", function()
        dir:write("tools.lua", "return { { name = 'add', run = function() return 'own' end } }")
        local r = ponder { "cot", "--quiet", "--tools", "tools.lua", "--mcp", server, "--mcp",
            server, "list" }
        assert.equal("add ponder_add env ponder_add_2 ponder_env\n", r.out)
        assert.equal("own\n", ponder({ "cot", "--quiet", "--tools", "tools.lua", "--mcp", server,
            "use add" }).out)
        assert.equal('{"sum":5}\n', ponder({ "cot", "--quiet", "--tools", "tools.lua", "--mcp",
            server, "use ponder_add" }).out)
    end)

    it("takes names of servers in config.lua, with variables for keys", function()
        dir:write("tools.lua", "return { { name = 'own', run = function() return 1 end } }")
        dir:write("config/ponder/config.lua", ([[return { mcp = {
            here = { command = { %q, "mcp", "p.lua" }, env = { GREETING = "hello $WHO" } },
            unset = { url = "http://127.0.0.1:1/", headers = { Authorization = "Bearer $NOPE" } },
            marks = { command = { "touch", "started" } },
            wrong = { nonsense = 1 } } }]]):format(shell.executable))
        assert.equal("hello you\n", ponder({ "cot", "--quiet", "--mcp", "here", "use env" },
            { WHO = "you" }).out)
        assert.equal(0, ponder({ "cot", "--quiet", "--tools", "tools.lua", "list" }).status)
        assert.is_nil(io.open(dir.path .. "/started")) -- it was not named
        assert.equal(1, ponder({ "cot", "--mcp", "marks", "x" }).status)
        assert.is_truthy(io.open(dir.path .. "/started"))
        local r = ponder { "cot", "--mcp", "unset", "x" }
        assert.equal(1, r.status)
        assert.matches("%-%-mcp: config.lua: mcp.unset.headers: $NOPE is not set", r.err)
        assert.matches('%-%-mcp: unknown option "nonsense"', ponder({ "cot", "--mcp", "wrong",
            "x" }).err)
    end)

    it("lets ponder mcp and ponder serve offer agents that use tools", function()
        for _, command in ipairs { "cot", "chat" } do
            task.run(function()
                local session <close> = assert(mcp.open { cwd = dir.path, command = {
                    shell.executable, "mcp", command, "--model", "script:m.lua", "--mcp",
                    server } })
                local said = {}
                local result = assert(session:call(command, { prompt = "use add" },
                    { on_progress = function(_, _, message) said[#said + 1] = message end }))
                assert.matches('{"sum":5}', result.text)
                assert.is_true(command == "cot" or said[1]:find "^calls add" ~= nil)
            end)
        end
        assert.matches("ponder mcp: %-%-mcp: exit 3: the server ended with status 3", ponder({
            "mcp", "cot", "--mcp", "exit 3" }).err)
    end)

    it("names the server that fails, and leaves none running", function()
        for mode, message in pairs { broken = "not JSON%-RPC", many = "more than max_tools",
            future = "2099%-01%-01" } do
            for _, command in ipairs { "cot", "chat" } do
                local r = ponder { command, "--mcp", fake(mode), "x" }
                assert.equal(1, r.status)
                assert.matches("ponder " .. command .. ": %-%-mcp: .*" .. message, r.err)
            end
        end
        assert.equal(1, ponder({ "cot", "--mcp", "exit 3", "x" }).status)
        local r = shell.run(("ps -A -o args= | grep -F %s | grep -v grep >$OUT; true"):format(
            shell.quote(dir.path .. "/received")))
        assert.equal("", r.out)
    end)

    it("can be interrupted while a server hangs", function()
        local r = shell.run(([[
            cd %s; %s cot --model script:m.lua --mcp 'touch up; sleep 50' x >$OUT 2>$ERR & pid=$!
            until [ -e up ]; do sleep 0.02; done
            kill -INT $pid; wait $pid; status=$?
            ps -A -o args= | grep -F 'touch up; sleep' | grep -v grep >$OUT
            exit $status]]):format(dir.path, shell.quote(shell.executable)))
        assert.same({ 130, "" }, { r.status, r.out })
        assert.matches("interrupted", r.err)
    end)

    it("does not retry a tool, and tells the model what went wrong", function()
        dir:write("received", "")
        local r = ponder { "cot", "--quiet", "--mcp", fake "plain", "use fails" }
        local err = json.decode(r.out).error
        assert.same({ "TOOL_FAILED", "fails: no luck" }, { err.code, err.message })
        local _, calls = dir:read("received"):gsub('"tools/call"', "")
        assert.equal(1, calls)
    end)

    it("runs no server named by another user's log", function()
        dir:write("stop.lua", "return function() return nil, 'down', 'SERVER' end")
        local marker = dir.path .. "/started"
        assert.equal(1, ponder({ "cot", "--log", "r.db", "--model", "script:stop.lua", "--mcp",
            ("touch %s; exec %s"):format(marker, server), "x" }).status)
        assert(os.remove(marker))
        local r = ponder({ "resume", "r.db" }, { XDG_STATE_HOME = dir.path .. "/other" })
        assert.matches("%-%-trust", r.err)
        assert.is_nil(io.open(marker))
    end)
end)
