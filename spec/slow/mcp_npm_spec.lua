-- ponder.mcp with common servers, and with the official conformance suite, all from
-- npm. Without npm or its registry these specs are pending.

local mcp = require "ponder.mcp"
local npm = require "npm"
local shell = require "shell"
local task = require "ponder.task"

-- Calls f(directory of the packages) if they can be installed.
local function with_packages(f)
    return function()
        local at = npm.install()
        if not at then
            pending "npm, node 20 or the registry cannot be reached"
            return
        end
        f(at)
    end
end

-- A session with a server from npm.
local function open(at, name, ...)
    return assert(mcp.open { env = { PATH = os.getenv "PATH" .. ":/usr/local/bin" },
        command = { at .. "/node_modules/.bin/mcp-server-" .. name, ... } })
end

local function find(tools, name)
    for _, tool in ipairs(tools) do
        if tool.name == name then
            return tool
        end
    end
end

describe("servers from npm", function()
    it("server-everything: tools, progress, images, structured content, errors",
        with_packages(function(at)
            task.run(function()
                local session <close> = open(at, "everything")
                local tools = assert(session:tools())
                assert.is_true(#tools >= 10)
                assert.equal("Echo: hi", find(tools, "echo").run { message = "hi" })
                assert.equal("The sum of 2 and 3 is 5.", session:call("get-sum",
                    { a = 2, b = 3 }).text)
                local steps = {}
                assert(session:call("trigger-long-running-operation", { duration = 0.2, steps = 2 },
                    { on_progress = function(done, total) steps[done] = total end }))
                assert.same({ 2, 2 }, steps)
                local picture = assert(session:call "get-tiny-image")
                assert.matches("%[an image, image/png%]", picture.text)
                local weather = assert(session:call("get-structured-content",
                    { location = "Chicago" }))
                assert.is_number(weather.structured.temperature)
                assert.equal("TOOL_FAILED", (select(3, session:call("get-sum", { a = "x" }))))
                local _, _, code = session:call("trigger-long-running-operation",
                    { duration = 10, steps = 5 }, { timeout_ms = 100 })
                assert.equal("TIMEOUT", code)
            end)
        end))

    it("server-everything over HTTP, with a session", with_packages(function(at)
        local r = npm.run(([[
            cd %s; export PORT=$(node -e '
                const s = require("net").createServer().listen(0, () => {
                    console.log(s.address().port); s.close() })')
            node_modules/.bin/mcp-server-everything streamableHttp >$ERR 2>&1 & pid=$!
            until grep -q listening $ERR; do kill -0 $pid || exit 9; sleep 0.05; done
            %s --no-log -e '
                local mcp = require "ponder.mcp"
                local session = assert(mcp.open { url = ... })
                print(#session:tools() >= 10, session:call("echo", { message = "hi" }).text)
                session:close()' http://127.0.0.1:$PORT/mcp >$OUT
            kill $pid; wait $pid 2>/dev/null; true]]):format(at, shell.quote(shell.executable)))
        assert.equal("true\tEcho: hi\n", r.out)
        assert.matches("session termination request", r.err)
    end))

    it("server-filesystem: reads only what it may", with_packages(function(at)
        local dir <close> = shell.directory { ["a.txt"] = "alpha\n" }
        task.run(function()
            local session <close> = open(at, "filesystem", dir.path)
            assert.equal("alpha\n", session:call("read_text_file",
                { path = dir.path .. "/a.txt" }).text)
            assert.is_truthy(find(session:tools(), "list_directory"))
            local _, message, code = session:call("read_text_file", { path = "/etc/hostname" })
            assert.equal("TOOL_FAILED", code)
            assert.matches("[Aa]ccess denied", message)
        end)
    end))

    it("server-memory: remembers from call to call", with_packages(function(at)
        local dir <close> = shell.directory {}
        task.run(function()
            local session <close> = assert(mcp.open {
                env = { PATH = os.getenv "PATH" .. ":/usr/local/bin",
                    MEMORY_FILE_PATH = dir.path .. "/m.jsonl" },
                command = { at .. "/node_modules/.bin/mcp-server-memory" } })
            assert(session:call("create_entities", { entities = { { name = "Ada",
                entityType = "person", observations = { "counts" } } } }))
            assert.matches("Ada", session:call("search_nodes", { query = "counts" }).text)
        end)
        assert.matches("Ada", dir:read "m.jsonl")
    end))
end)

describe("a server of version 2 of the SDK with only 2026-07-28", function()
    it("works over standard input and output", with_packages(function(at)
        task.run(function()
            local session <close> = assert(mcp.open {
                env = { PATH = os.getenv "PATH" .. ":/usr/local/bin" },
                command = { "node", at .. "/modern_server.mjs" } })
            assert.equal("modern", session.server.name)
            assert.equal("3", session:call("add", { a = 1, b = 2 }).text)
        end)
    end))

    it("works over HTTP, where a header repeats an argument", with_packages(function(at)
        local r = npm.run(([[
            cd %s; node modern_server.mjs http >$ERR & pid=$!
            until grep -q mcp $ERR; do kill -0 $pid || exit 9; sleep 0.05; done
            %s --no-log -e '
                local session <close> = assert(require("ponder.mcp").open { url = ... })
                print(session:call("add", { a = 1, b = 2 }).text)
                print((session:tools()[1].run { a = 3, b = 4 }))' $(cat $ERR) >$OUT
            kill $pid; wait $pid 2>/dev/null; true]]):format(at, shell.quote(shell.executable)))
        assert.equal("3\n7\n", r.out)
    end))
end)

describe("the official conformance suite", function()
    local function with_node(f)
        return with_packages(function(at)
            local node = npm.node22()
            if not node then
                pending "node 22 cannot be had, which the suite needs"
                return
            end
            f(at, node)
        end)
    end

    -- The scenarios that failed, sorted.
    local function failed(text)
        local names = {}
        for name in text:gmatch "✗ ([%w/_-]+):" do
            names[#names + 1] = name
        end
        table.sort(names)
        return names
    end

    -- Not offered: completion, sampling, elicitation, subscriptions.
    local SERVER_LACKS = { "completion-complete", "elicitation-sep1034-defaults",
        "elicitation-sep1330-enums", "resources-subscribe", "resources-unsubscribe",
        "tools-call-elicitation", "tools-call-sampling" }

    it("passes our server, except for what it does not offer", with_node(function(at, node)
        local r = npm.run(([[
            cd %s; %s --no-log conformance_server.lua >$ERR & pid=$!
            until grep -q mcp $ERR; do kill -0 $pid || exit 9; sleep 0.05; done
            %s node_modules/.bin/conformance server --suite all --url $(cat $ERR) >$OUT 2>&1
            kill $pid; wait $pid 2>/dev/null; true]]):format(at, shell.quote(shell.executable),
            node))
        assert.same(SERVER_LACKS, failed(r.out))
        local _, passed = r.out:gsub("✓ ", "")
        assert.equal(32 - #SERVER_LACKS, passed)
    end))

    it("passes our client where only tools are needed", with_node(function(at, node)
        for _, scenario in ipairs { "initialize", "tools_call" } do
            local r = npm.run(("cd %s; %s node_modules/.bin/conformance client --scenario %s "
                .. "--command '%s --no-log %s/conformance_client.lua' >$OUT 2>&1"):format(at, node,
                scenario, shell.executable, at))
            assert.equal(0, r.status, scenario .. ": " .. r.out)
        end
    end))
end)
