-- ponder run --untrusted: policies written by strangers.

local json = require "ponder.json"
local shell = require "shell"
local size = require "size"

local MODEL = [[return function(request)
    require("ponder.task").sleep(0.002)
    return "a-" .. request.messages[1].content
end]]

-- Runs a policy in a directory with a model m.lua and a file data/x.txt.
local function run(code, flags, files)
    local all = { ["p.lua"] = code, ["m.lua"] = MODEL, ["data/x.txt"] = "some text",
        ["secret.txt"] = "secret" }
    for name, text in pairs(files or {}) do
        all[name] = text
    end
    local dir <close> = shell.directory(all)
    local arguments = { "run", "--no-log", "--untrusted", "--timeout", "30s" }
    table.move(flags or {}, 1, #(flags or {}), #arguments + 1, arguments)
    arguments[#arguments + 1] = "p.lua"
    return dir:ponder(arguments, { env = { OPENAI_API_KEY = "sk-secret" } })
end

local function out(code, flags, files)
    local r = run(code, flags, files)
    assert.same({ 0, "" }, { r.status, r.err }, r.out)
    return r.out
end

local ASK = { "--allow-model", "script:m.lua", "--max-calls", "10" }

describe("a confined process", function()
    -- Runs scripts in the process itself, with all of Lua's library.
    local function confined(code, memory_mb, seconds, before, environment)
        local script = ([[
            local loop = require "ponder.core.loop"
            loop.wait(0)
            local confine = require "ponder.core.confine"
            %s
            assert(confine.enter(%d, %d))
            ]]):format(before or "", memory_mb or 4096, seconds or 20) .. code
        -- It may not write to a file, but to a pipe; nor trace itself, as the leak checker does.
        return shell.run(([[export ASAN_OPTIONS=detect_leaks=0
            { %s %s --no-log -e %s 2>&1; echo status $?; } | cat >$OUT]]):format(
            environment or "", shell.quote(shell.executable), shell.quote(script)))
    end

    for what, code in pairs { -- none does harm where it is not confined
        ["open a file"] = "print(io.open('/etc/passwd'))",
        ["write a file"] = "print(io.open('/not-there/escape', 'w'))",
        ["remove a file"] = "print(os.remove('/not-there'))",
        ["rename a file"] = "print(os.rename('/not-there', '/nor-there'))",
        ["run a program"] = "print(io.popen([[echo esc''aped]]))",
        ["read a directory"] = "print(require('ponder.core.directory').files('/'))",
        ["change its directory"] = "print(require('ponder.core.host').directory('/'))",
        ["start a process"] = "print(require('ponder.core.confine').spawn('--version'))",
    } do
        it("cannot " .. what, function()
            local r = confined(code)
            assert.is_nil(r.out:find("escaped", 1, true))
            assert.is_true(r.out:find("not permitted", 1, true) ~= nil
                or r.out:find("ermission denied", 1, true) ~= nil, r.out)
        end)
    end

    -- Each refuses all files: with both, neither would be missed.
    it("reaches no file where the kernel has only Landlock, or only seccomp", function()
        for guard, refusal in pairs { landlock = "Permission denied",
            seccomp = "Operation not permitted" } do
            local r = confined([[
                print((select(2, io.open "/etc/passwd")))
                print((select(2, require("ponder.core.directory").files "/etc")))
                print((select(2, io.open("/dev/null", "w"))), missing)]], nil, nil,
                "local missing = #confine.missing()",
                ("GUARD=%s LD_PRELOAD='%s %s'"):format(guard, os.getenv "PRELOAD" or "",
                shell.build "one_guard.so"))
            assert.equal(("X\nX\nX\t1\nstatus 0\n"):gsub("X", refusal),
                (r.out:gsub("[^\n]*: ", "")))
        end
    end)

    it("cannot reach the network", function()
        local r = confined([[
            local m = require("ponder.model").open("openai:m", { api_key = "x", max_retries = 0,
                base_url = "http://127.0.0.1:1/v1" })
            print(m:complete "x")]])
        assert.matches("^nil\t", r.out)
        assert.is_nil(r.out:find("refused", 1, true), r.out)
    end)

    it("leaves its parent no descriptor, and tells it which signal it died of", function()
        local dir <close> = shell.directory()
        local r = shell.ponder { "-e", [[
            local confine, path = require "ponder.core.confine", ...
            local function descriptors() -- not by io.popen, whose pipe is one while it starts
                os.execute("ls /proc/$PPID/fd | wc -l >" .. path)
                local file <close> = io.open(path)
                return file:read "n"
            end
            local function spawn(n)
                for _ = 1, n do
                    local _ <close> = confine.spawn()
                end
                return descriptors()
            end
            local before = spawn(1) -- opens what stays open
            spawn(5)
            print(descriptors() <= before)
            local child = confine.spawn()
            local pid = io.lines "/proc/thread-self/children"():match "%d+"
            os.execute(("kill -USR1 %s; until grep -q State:.Z /proc/%s/status; do "
                .. "sleep 0.01; done"):format(pid, pid))
            print((child:send "x"))
            print(child:why())
            local _ <close> = require("ponder.core.loop").signal "hangup"
            child = confine.start(string.dump(function() -- inherits neither that nor our terminal
                return nil, nil, function()
                    print "x"
                    return "done"
                end
            end))
            child:send(("<I8"):pack(64 << 20))
            print(child:receive(20))
            pid = io.lines "/proc/thread-self/children"():match "%d+"
            os.execute(("if [ $(id -u) = 0 ]; then readlink /proc/%s/fd/2; fi"):format(pid))
            os.execute("kill -HUP " .. pid)
            print(child:why())]], dir.path .. "/count" }
        assert.same({ "true\nnil\n10\ndone\n1\n", "" },
            { r.out:gsub("/dev/null\n", ""), r.err })
    end)

    it("cannot run a shell", function()
        local r = confined("print(os.execute([[echo esc''aped]]))")
        assert.is_nil(r.out:find("escaped", 1, true))
    end)

    -- The process cannot pass them on: as if the kernel lacked them.
    it("may lack Landlock and seccomp, which --untrusted and doctor report", function()
        local said = confined([[
            local confined = require "ponder.cli.shared.confined"
            local _, refusal = pcall(confined.check, { untrusted = true })
            print(refusal.message)
            print(confined.check { untrusted = true, weak_isolation = true })
            require("ponder.cli.doctor").run({}, {})]]).out
        assert.matches("^%-%-untrusted: this kernel has no Landlock and no seccomp [^\n]*"
            .. "%-%-weak%-isolation[^\n]*\n\n", said)
        assert.matches("\n%-%- isolation +this kernel has no Landlock and no seccomp", said)
    end)

    it("has each of its limits, since a kernel may lack what also holds", function()
        local said = confined("print(status:read 'a', limits:read 'a')", 512, 20,
            "local status, limits = io.open '/proc/self/status', io.open '/proc/self/limits'")
        for what, limit in pairs { ["core file size"] = "0 +0", ["file size"] = "0 +0",
            ["processes"] = "0 +0", ["cpu time"] = "19 +20",
            ["address space"] = size.SANITIZED and "%S+ +%S+" or "536870912 +536870912" } do
            assert.matches(("\nMax %s +%s "):format(what, limit), said.out)
        end
        assert.matches("\nNoNewPrivs:\t1\n", said.out)
        if not table.concat(require("ponder.core.confine").missing()):find "seccomp" then
            assert.matches("\nSeccomp:\t2\n", said.out)
        end
    end)

    it("is killed at the limit of processor time", function()
        assert.equal(("status %d\n"):format(128 + 24),
            confined("while true do end", 4096, 2).out:match "status.*")
    end)

    it("has a limited address space", function()
        local said = confined("print(pcall(string.rep, ('x'):rep(1 << 20), 1 << 10))", 512).out
        assert.equal(size.SANITIZED and "true" or "false\tnot enough memory\nstatus 0\n",
            size.SANITIZED and said:sub(1, 4) or said)
    end)

    it("computes", function()
        assert.equal("499500\nstatus 0\n", confined(
            "local n = 0 for i = 1, 999 do n = n + i end print(n) "
            .. "require('ponder.task').sleep(0.001)").out)
    end)
end)

describe("ponder run --untrusted", function()
    it("runs a policy and prints its result", function()
        local r = run("print('hello', ...) return { 1, { a = 'x' } }", { "--json" })
        assert.same({ 0, 'hello\n[1,{"a":"x"}]\n', "" }, { r.status, r.out, r.err })
    end)

    it("gives it only what is allowed", function()
        local names = shell.lines(out([[for name in pairs(_G) do print(name) end]]))
        table.sort(names)
        assert.equal("_G _VERSION assert coroutine error fetch getmetatable ipairs load math "
            .. "next os pairs pcall print rawequal rawget rawlen rawset read require select "
            .. "setmetatable string table tonumber tool tostring type utf8 xpcall",
            table.concat(names, " "))
        assert.equal("clock date difftime time\n", out [[
            local names = {}
            for name in pairs(os) do names[#names + 1] = name end
            table.sort(names)
            print(table.concat(names, " "))]])
        assert.equal("1970-01-02\t3.0\ttrue\ttrue\n", out [[
            print(os.date("!%Y-%m-%d", 86400), os.difftime(5, 2),
                os.time { year = 1971, month = 1, day = 1 } < os.time(),
                math.abs(os.time() - os.time(os.date "*t")) < 60)]])
        for _, name in ipairs { "ponder.core.host", "ponder.core.confine", "io",
            "ponder.core.process", "ponder.core.store", "ponder.serve.untrusted.parent", "cjson",
            "ponder.log" } do
            assert.matches("is not allowed under %-%-untrusted\n$",
                out(("print(select(2, pcall(require, %q)))"):format(name)))
        end
        assert.equal("nil\tnil\n", out "print(string.dump, (''):rep(2).dump)")
        assert.equal("nil\tnil\n", out "print(getmetatable(''), getmetatable(print))")
        assert.matches("binary", out(("print(load(%q))"):format(string.dump(function() end))))
        assert.equal("7\tnil\ttable\n", out [[
            x = 7
            print(load "return x"(), load("return x", "c", "t", {})(),
                type(require "ponder.tot"))]])
        for _, opts in ipairs { "", "{ isolate = true }" } do
            assert.matches("^p.lua:2: process.run: ", out(([[print(select(2, pcall(function()
                require("ponder.process").run(%s)
            end)))]]):format(opts)))
        end
    end)

    it("gives it no key and no environment", function()
        assert.equal("nil\n", out "print(os.getenv)")
        -- Nor have its process and that of its program: we read their /proc, which they cannot.
        local r = shell.run(([[
            export OPENAI_API_KEY=sk-secret; exec >$OUT 2>$ERR
            %s --no-log --untrusted -e 'require"ponder.sandbox".run("while true do end",
                { timeout_ms = 50000, steps = 1 << 50 })' >/dev/null 2>&1 &
            parent=$!
            for i in $(seq 500); do
                children=$(pgrep -P $parent)
                set -- $(for c in $children; do grep -l Seccomp:.2 /proc/$c/status; done)
                [ $# = 2 ] && break; sleep 0.01
            done
            for child in $children; do
                tr '\0' '\n' < /proc/$child/environ | grep -c .
                ls -l /proc/$child/fd | grep -c socket
                grep -E "^(NoNewPrivs|Seccomp):" /proc/$child/status
            done
            kill -INT $parent; wait $parent
            for child in $children; do kill -0 $child 2>/dev/null && echo alive; done; :]])
            :format(shell.quote(shell.executable)))
        assert.equal(("0\n1\nNoNewPrivs:\t1\nSeccomp:\t2\n"):rep(2), r.out)
    end)

    it("kills a busy policy, or a program, when its parent is killed", function()
        for _, code in ipairs { "--untrusted -e 'while true do end'",
            [[-e 'require"ponder.sandbox".run("while true do end",
                { timeout_ms = 50000, steps = 1 << 50 })']] } do
            local r = shell.run(([[
                exec >$OUT 2>$ERR
                %s --no-log %s >/dev/null 2>&1 &
                parent=$!
                for i in $(seq 500); do child=$(pgrep -P $parent) && break; sleep 0.01; done
                for i in $(seq 500); do
                    grep -q Seccomp:.2 /proc/$child/status && break; sleep 0.01
                done
                ls /proc/$child/fd | wc -l
                kill -KILL $parent; wait $parent 2>/dev/null
                for i in $(seq 1000); do kill -0 $child 2>/dev/null || exit 0; sleep 0.01; done
                kill -KILL $child; echo alive]]):format(shell.quote(shell.executable), code))
            assert.equal(0, r.status)
            assert.matches(code:find "sandbox" and "^4\n$" or "^%d+\n$", r.out)
        end
    end)

    it("calls models in the parent, at any concurrency", function()
        assert.equal("a-x\ttext\t1\tnil\na-q1,a-q2,a-q3,a-q4\n", out([[
            local m = require("ponder.model").open()
            m:complete("x", { on_delta = print })
            print(table.concat(require("ponder.task").map({ 1, 2, 3, 4 }, function(i)
                return (assert(m:complete("q" .. i)))
            end, { concurrency = 2 }), ","))]], ASK))
    end)

    it("limits calls to the given models and budget", function()
        assert.matches("script:other.lua.* is not allowed here", out([[
            print(select(2, pcall(require("ponder.model").open, "script:other.lua")))]], ASK))
        assert.equal("a-1\tnil\nnil\tBUDGET\n", out([[
            local m = require("ponder.model").open "script:m.lua"
            for i = 1, 2 do
                local text, message, code = m:complete(tostring(i))
                print(text, type(message) == "string" and code or nil)
            end]], { "--allow-model", "script:m.lua", "--max-calls", "1" }))
        local r = run("", { "--allow-model", "script:m.lua" })
        assert.equal(2, r.status)
        assert.matches("%-%-allow%-model needs a budget", r.err)
    end)

    it("returns typed answers, lists of samples and what did not fit", function()
        assert.equal("3 2 BAD_REPLY no\n", out([[
            local m = require("ponder.model").open()
            local _, _, code, partial = m:complete("no", { returns = "integer" })
            print(m:complete("3", { returns = "integer" }), #m:complete("x", { n = 2 }), code,
                partial.text)]], { "--allow-model", "script:m.lua", "--max-calls", "9" },
            { ["m.lua"] = "return function(r) return r.messages[1].content end" }):gsub("\t", " "))
    end)

    it("trusts nothing that the policy sends about a call", function()
        assert.equal("model.chat: opts.n must be an integer from 1 to 1024 (got \"x\")\n"
            .. "model.chat: opts must be a table (got 5)\n", (out([[
            local m = require("ponder.model").open()
            print((select(2, pcall(m.complete, m, "x", { n = "x" })):gsub("^.-: ", "")))
            print((select(2, pcall(m.chat, m, 5))))]], ASK)))
    end)

    it("passes on a short list of what a call may have, and names the rest", function()
        local refused = {
            { "base_url", '"http://127.0.0.1:1"' }, { "api_key", '"stolen"' },
            { "extra", "{ web_search_options = {} }" }, { "headers", '{ x = "y" }' },
            { "max_body_bytes", "1 << 40" }, { "cross_host_redirects", "true" },
            { "tools", '{ { name = "f" }, { type = "web_search_20250305", name = "web_search",'
                .. " max_uses = 500 } }", "%[2%]" },
            { "tools", '{ { type = "web_search" } }', '%[1%].type %("web_search"%)' },
            { "tools", '{ { name = "f", cache_control = {} } }', "%[1%].cache_control" },
            { "tools", '{ { name = "f", type = "function", ["function"] = { container = 1 } } }',
                "%[1%].function.container" },
            { "tool_choice", '{ type = "mcp", server_label = "x" }', "%." },
            { "system", '{ { type = "text", text = "x", cache_control = { ttl = "1h" } } }',
                "%[1%].cache_control" },
            { "messages", "{ { role = 'user', content = { { type = 'text', text = 'x' }, {"
                .. "type = 'image_url', image_url = { url = 'http://127.0.0.1/x' } } } } }",
                "%[1%].content%[2%]" },
            { "messages", "{ { role = 'user', content = { { type = 'document' } } } }",
                '%[1%].content%[1%].type %("document"%)' },
            { "messages", "{ { role = 'tool', tool_call_id = 'a', content = { {"
                .. "type = 'image' } } } }", '%[1%].content%[1%].type %("image"%)' },
            { "messages", "{ { role = 'assistant', blocks = { { type = 'server_tool_use' } } } }",
                '%[1%].blocks%[1%].type %("server_tool_use"%)' },
            { "messages", "{ { role = 'user', content = '', images = { '' } } }", "%[1%].images" },
            { "messages", "{ { role = 'assistant', content = '', tool_calls = { { id = 'a',"
                .. " type = 'custom', custom = {} } } } }", "%[1%].tool_calls%[1%]" },
        }
        local calls, places = {}, {}
        for i, one in ipairs(refused) do
            calls[i] = ("{ %s = %s }"):format(one[1], one[2])
            places[i] = ("DENIED\tmodel.chat: opts.%s%s[^\n]* is not allowed under --untrusted\n")
                :format(one[1], one[3] or "")
        end
        local expected = "^" .. table.concat(places):gsub("%-%-", "%%-%%-") .. "a%-y\ta%-z\n$"
        assert.matches(expected, out(([[
            local model = require "ponder.model"
            local m = model.open()
            for i, call in ipairs { %s } do
                call.messages = call.messages or { { role = "user", content = "x" } }
                local reply, message, code
                if i %% 2 == 0 then
                    reply, message, code = m:chat(call)
                else
                    reply, message, code = model.open(nil, call):chat { messages = call.messages }
                end
                print(code, message)
            end
            local found, other = { id = "a", name = "f", arguments = { a = 1 },
                arguments_json = '{"a":1}' }, { id = "b", type = "function",
                ["function"] = { name = "f", arguments = "{}" } }
            local reply = assert(m:chat { system = { { type = "text", text = "s" } },
                temperature = 1, top_p = 1, max_output_tokens = 9, stop = { "x" }, seed = 1, n = 1,
                tools = { { name = "f", description = "d", parameters = { type = "object" },
                    run = print }, { type = "function", ["function"] = { name = "g" } } },
                tool_choice = { name = "f" }, metadata = { a = 1 }, on_delta = function() end,
                messages = { { role = "user", content = { { type = "text", text = "y" } } },
                    { role = "assistant", content = "", tool_calls = { found, other }, blocks = {
                        { type = "thinking", thinking = "t", signature = "s" },
                        { type = "tool_use", id = "a", name = "f", input = { a = 1 } } } },
                    { role = "tool", tool_call_id = "a", content = "1" },
                    { role = "user", content = "y" } } })
            print(reply.text, (model.open(nil, { concurrency = 2, stop = "x" }):complete "z"))]])
            :format(table.concat(calls, ", ")), ASK, { ["m.lua"] = [[return function(request)
                return "a-" .. request.messages[#request.messages].content end]] }))
    end)

    it("reads below the given directories", function()
        local dir <close> = shell.directory {
            ["data/x.txt"] = "some text", ["secret.txt"] = "secret", ["data2/x.txt"] = "secret",
            ["p.lua"] = [[for _, path in ipairs { "data/x.txt", "secret.txt", "data/../secret.txt",
                "data/link", "/etc/passwd", "data", "data/none", "data2/x.txt", "data/.",
                "data/../data2/x.txt", "data2" } do
                print(path, (read(path)))
            end]] }
        shell.run("ln -s ../secret.txt " .. dir.path .. "/data/link")
        local r = dir:ponder { "run", "--no-log", "--untrusted", "--allow-read", "data", "p.lua" }
        assert.equal("data/x.txt\tsome text\nsecret.txt\tnil\ndata/../secret.txt\tnil\n"
            .. "data/link\tnil\n/etc/passwd\tnil\ndata\tnil\ndata/none\tnil\ndata2/x.txt\tnil\n"
            .. "data/.\tnil\ndata/../data2/x.txt\tnil\ndata2\tnil\n", r.out)
    end)

    it("reads only regular files, at their place when they are open", function()
        local dir <close> = shell.directory { ["data/x.txt"] = "some text", ["p.lua"] =
            [[for _, path in ipairs { "data/x.txt", "data/pipe", "/proc/self/environ",
                "/proc/self/cwd/data/x.txt", "/dev/zero" } do
                print((read(path)))
            end]] }
        shell.run("mkfifo " .. dir.path .. "/data/pipe")
        local r = dir:ponder { "run", "--no-log", "--untrusted", "--allow-read", "/", "p.lua" }
        assert.equal("some text\nnil\nnil\nsome text\nnil\n", r.out)
    end)

    it("does not follow a link made between the check of a path and its opening", function()
        local dir <close> = shell.directory { ["data/x.txt"] = "some text", ["secret"] = "secret",
            ["p.lua"] = [[
            local requests = require "ponder.serve.untrusted.requests"
            local host = require "ponder.core.host"
            local absolute, box = host.absolute, {}
            assert(requests.prepare(box, { directories = { "data" } }))
            function host.absolute(path)
                local found = absolute(path)
                assert(os.execute "rm data/x.txt; ln -s ../secret data/x.txt")
                return found
            end
            local answer = requests.perform(box, { kind = "read",
                what = '{"path":"data/x.txt"}' }, function() end, {})
            print(answer.text, answer.code)]] }
        local r = dir:ponder { "run", "--no-log", "p.lua" }
        assert.equal("nil\tNOT_FOUND\n", r.out, r.err)
    end)

    it("gives it neither files that are too long, nor much at once", function()
        local dir <close> = shell.directory { ["p.lua"] = [[
            local task = require "ponder.task"
            print((select(3, read "long")), (read "a\0b"))
            local numbers = {}
            for i = 1, 12 do numbers[i] = i end
            local sizes = task.map(numbers, function() return #(read "mid") end)
            print(sizes[1], sizes[12])
            local large = ("x"):rep(9 << 20)
            local said = task.map({ 1, 2, 3 }, function()
                local ok, message = pcall(tool, "x", large)
                return not ok and message:gsub("^.-: ", "") or "asked"
            end)
            print(said[2], said[3])
            local many = {}
            for i = 1, 1100000 do many[i] = 0 end
            print((select(2, tool("x", many))))
            for i = 1, 1100000 do many[i] = i <= 300000 and {} or nil end
            print((select(2, tool("x", many))))]] }
        shell.run("cd " .. dir.path .. "; head -c 7000000 /dev/zero >long; "
            .. "head -c 4000000 /dev/zero >mid; echo a >a")
        local r = dir:ponder { "run", "--no-log", "--untrusted", "--allow-read", ".", "p.lua" }
        assert.equal("TOO_LARGE\tnil\n4000000\t4000000\nasked\tmore than 24 MiB at once\n"
            .. "malformed request\nmalformed request\n", r.out, r.err)
    end)

    it("refuses more than 32 MiB of unanswered requests", function()
        local r = run([[
            local task, large = require "ponder.task", ("x"):rep(17 << 20)
            local held = task.spawn(tool, "hold", large)
            task.sleep(0.001)
            print(select(2, tool("hold", large)))
            held:cancel()]], { "--allow-tool", "hold.lua" },
            { ["hold.lua"] = "return function() require('ponder.task').sleep(1000) end" })
        assert.same({ "too many requests at once\tDENIED\n", "" }, { r.out, r.err })
    end)

    it("refuses arguments of a wrong type before it asks", function()
        assert.equal("read: path must be a string (got nil)\n"
            .. "fetch: url must be a string (got a table)\nfetch: opts must be a table (got 1)\n"
            .. "tool: name must be a string (got true)\n", out [[
            for _, call in ipairs { { read }, { fetch, {} }, { fetch, "", 1 }, { tool, true } } do
                print((select(2, pcall(table.unpack(call))):gsub("^%S+:%d+: ", "")))
            end]])
    end)

    it("isolates its programs, within limits, whatever it asks for", function()
        local dir <close> = shell.directory { ["p.lua"] = [[
            local json, requests = require "ponder.json", require "ponder.serve.untrusted.requests"
            local box = {}
            assert(requests.prepare(box, {}))
            package.loaded["ponder.process"] = { run = function(opts)
                local names = {}
                for name, value in pairs(opts) do
                    names[#names + 1] = ("%s=%s"):format(name, type(value) == "table"
                        and json.encode(value) or tostring(value))
                end
                table.sort(names)
                print(table.concat(names, " "))
            end }
            for _, what in ipairs { { command = { "x" } }, { command = "x", shell = true,
                cwd = "/", isolate = false, env = { A = "1", PATH = "/x", ["1"] = "HOME" },
                input = "i", timeout_ms = 1 << 40, max_output_bytes = 1 << 40,
                max_memory_mb = 1 << 40 },
                { timeout_ms = "x", max_output_bytes = 5, max_memory_mb = 17.0 } } do
                requests.perform(box, { kind = "process", what = json.encode { opts = what } },
                    function() end, {})
            end]] }
        local r = dir:ponder { "run", "--no-log", "p.lua" }
        assert.equal('command=["x"] env={"PATH":"/usr/local/bin:/usr/bin:/bin"} isolate=true '
            .. 'timeout_ms=60000\ncommand=x env={"1":"HOME","A":"1","PATH":"/x"} input=i '
            .. 'isolate=true max_memory_mb=1024 max_output_bytes=16777216 shell=true '
            .. 'timeout_ms=600000\n'
            .. 'env={"PATH":"/usr/local/bin:/usr/bin:/bin"} isolate=true max_memory_mb=17 '
            .. 'max_output_bytes=5 timeout_ms=600000\n', r.out, r.err)
    end)

    it("has four programs run, and four files or replies sent, at once", function()
        local dir <close> = shell.directory { ["data/x.txt"] = "", ["p.lua"] = [[
            local requests, task = require "ponder.serve.untrusted.requests", require "ponder.task"
            local box, many, now, most = {}, {}, 0, 0
            assert(requests.prepare(box, { directories = { "data" } }))
            local function work()
                now = now + 1
                most = math.max(most, now)
                task.sleep(0.001)
                now = now - 1
            end
            package.loaded["ponder.process"] = { run = work }
            for i = 1, 12 do many[i] = i end
            for kind, what in pairs { process = "{}", read = '{"path":"data/x.txt"}' } do
                most = 0
                task.map(many, function()
                    return requests.perform(box, { kind = kind, what = what }, work, {})
                end)
                print(most)
            end]] }
        assert.equal("4\n4\n", dir:printed { "run", "--no-log", "p.lua" })
    end)

    it("reports to it what is too long for the log", function()
        local dir <close> = shell.directory { ["p.lua"] = [[
            local text, message, code = read "long"
            print(text, message:match ": (.*)$", code)]] }
        shell.run("cd " .. dir.path .. "; head -c 12000000 /dev/zero >long")
        local r = dir:ponder { "run", "--log", "a.db", "--untrusted", "--allow-read", ".", "p.lua" }
        assert.equal("nil\twhat the function returned is too long for the log\tERROR\n", r.out,
            r.err)
    end)

    it("reports what ended a policy", function()
        for code, expected in pairs {
            ["error 'oh'"] = "^ponder: p.lua:1: oh\nstack traceback:\n\tp.lua:1: [^\n]*\n$",
            ["x y"] = "^ponder: p.lua:1: syntax error near 'y' %[SYNTAX%]\n$",
            ["return print"] = "^ponder: cannot send what the policy returned: ",
            ["local t = {} for i = 1, 1e9 do t[i] = { i } end"] =
                "^ponder: the policy exceeded its memory",
            ["return #('x'):rep(100 << 20)"] = "^ponder: the policy exceeded its memory",
        } do
            local r = run(code, { "--max-memory-mb", "64" })
            assert.equal(1, r.status)
            assert.matches(expected, r.err)
        end
    end)

    it("limits steps and time, whatever the policy does", function()
        local r = run("while true do pcall(error) end", { "--max-steps", "100000" })
        assert.same({ 1, "ponder: the budget of steps is spent [STEPS]\n" }, { r.status, r.err })
        for _, code in ipairs { "while true do end", "while true do pcall(error) end",
            "string.find(('a'):rep(40), ('a-'):rep(40) .. 'b')", "require'ponder.task'.sleep(50)",
            "while true do print(('x'):rep(1e5)) end" } do
            r = run(code, { "--timeout", "200ms" })
            assert.equal(124, r.status)
            assert.matches("^ponder: the ", r.err) -- budget, or under load the watchdog
        end
    end)

    it("can be resumed and replayed", function()
        local dir <close> = shell.directory { ["m.lua"] = MODEL, ["p.lua"] = [[
            local m, task = require("ponder.model").open(), require "ponder.task"
            local out = task.map({ 1, 2, 3 }, function(i)
                task.sleep(0.001 * i)
                return (assert(m:complete("q" .. i)))
            end)
            return { out[1], out[2], out[3], math.random(1 << 40), os.time(), task.now() }]] }
        local function ponder(...) return json.decode(dir:printed { ... }) end
        local first = ponder("run", "--json", "--log", "a.db", "--untrusted", "--allow-model",
            "script:m.lua", "--max-calls", "5", "p.lua")
        assert.equal("a-q2", first[2])
        assert.same(first, ponder("replay", "a.db"))
        assert.same(first, ponder("resume", "a.db"))
    end)

    it("runs programs that a model wrote in processes of its parent, even where it cannot wait",
        function()
            assert.equal("nil\tTIMEOUT\nnil\tMEMORY\n1\t3\n", out([[
                local function run(code, opts)
                    local value, _, problem = require("ponder.sandbox").run(code, opts)
                    return value, problem
                end
                print(run("(''):rep(1e18)", { timeout_ms = 20 }))
                print(run("return #('x'):rep(100 << 20)", { memory_mb = 1000 }))
                local list = { 3, 1, 2 }
                table.sort(list, function(a, b)
                    return (run("return a < b", { globals = { a = a, b = b } }))
                end)
                print(list[1], list[3])]], { "--max-memory-mb", "64" }))
        end)

    it("calls only the given servers", function()
        local server <close> = require("server").start()
        local host = server.url:match "//(.*)$"
        local code = ([[
            local reply = fetch("http://%s/s/text=x/v1/chat/completions", { method = "POST",
                headers = { ["content-type"] = "application/json", ["x\n"] = "y" },
                timeout_ms = -1,
                body = '{"model":"m","messages":[]}' })
            print(reply.status, #reply.body > 0)
            for _, url in ipairs { "http://127.0.0.1:1/", "http://%s@evil/", "http://x%s/",
                "http://%s\\@evil/", "file:///x", "http://%s#@evil/%%0a\n", "http://[::1]/" } do
                print(select(3, fetch(url)))
            end]]):gsub("%%%%s", "%%s"):format(host, host, host, host, host)
        local r = run(code, { "--allow-net", host })
        assert.same({ "200\ttrue\n" .. ("DENIED\n"):rep(7), "" }, { r.out, r.err })
    end)

    it("follows no redirect, and names no other host", function()
        local server <close> = require("server").start()
        local other <close> = require("server").start()
        local host = server.url:match "//(.*)$"
        local r = run(([[
            local reply = fetch("http://%s/x?status=307&h=location:%s/x")
            print(reply.status, reply.headers.location, (select(3, fetch(reply.headers.location))))
            print(fetch("http://%s/echo", { headers = { Host = "evil", ["X-A"] = "b",
                ["X-B"] = "c\r\nevil: d",
                ["content-length"] = "3", ["proxy-authorization"] = "x" } }).body)]]):format(host,
            other.url, host), { "--allow-net", host })
        local status, body = r.out:match "^(.-)\n(.*)$"
        assert.same({ "307\t" .. other.url .. "/x\tDENIED", "" }, { status, r.err })
        assert.equal("", other:request())
        assert.matches("\nHost: " .. host:gsub("%.", "%%.") .. "\n", body)
        assert.matches("\nX%-A: b\n", body)
        for _, name in ipairs { "evil", "ontent%-[Ll]ength", "uthorization" } do
            assert.is_nil(body:find(name), body)
        end
    end)

    it("sends a request with what it may choose, to hosts that are public or the user's own",
        function()
            local dir <close> = shell.directory { ["p.lua"] = [[
            local json, requests = require "ponder.json", require "ponder.serve.untrusted.requests"
            local box, sent = {}, nil
            assert(requests.prepare(box,
                { hosts = { "a.example", "B.example", "box", "c.local" } }))
            require("ponder.model.transport").shared = function()
                return { send = function(_, what)
                    sent = what
                    return { status = 200, headers = {}, body = "" }
                end }
            end
            local function ask(opts, host)
                sent = nil
                requests.perform(box, { kind = "fetch", what = json.encode { opts = opts,
                    url = ("http://%s/x"):format(host or "a.example") } }, function() end, {})
                return sent
            end
            local methods, headers = {}, {}
            for _, method in ipairs { "GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "TRACE",
                "CONNECT", 5 } do
                table.insert(methods, ask({ method = method }).method)
            end
            for _, name in ipairs { "X-A", "Host", "connection", "Content-Length", "TE",
                "transfer-encoding", "Trailer", "upgrade", "keep-alive", "Proxy-X", "a b", "" } do
                local given = ask({ headers = { [name] = "v" } }).headers
                headers[#headers + 1] = next(given)
            end
            print(table.concat(methods, " "), table.concat(headers, " "))
            print((next(ask({ headers = { a = "b\nc" } }).headers)),
                (next(ask({ headers = { a = 5 } }).headers)),
                ask({ body = "b" }).body, ask({ body = 5 }).body)
            for _, ms in ipairs { 1, 0, 1.5, "x" } do
                io.write(ask({ timeout_ms = ms }).timeout_ms, " ")
            end
            local one = ask {}
            print(one.max_redirects, one.max_body_bytes)
            for _, host in ipairs { "a.example", "b.EXAMPLE", "box", "c.local", "a.example:80",
                "a.example:443", "c.example" } do
                local it = ask({}, host)
                io.write(tostring(it and it.public_only), " ")
            end]] }
            local env = {}
            for _, name in ipairs { "http_proxy", "https_proxy", "HTTPS_PROXY", "all_proxy",
                "ALL_PROXY" } do
                env[name] = ""
            end
            local expected = "GET HEAD POST PUT DELETE PATCH GET GET GET\tX-A\nnil\tnil\tb\tnil\n"
                .. "1 60000 60000 60000 0\t16777216\n"
            assert.equal(expected .. "true true false false true nil nil ",
                dir:printed({ "run", "--no-log", "p.lua" }, { env = env }))
            for name in pairs(env) do -- a proxy resolves names itself
                env[name] = "http://127.0.0.1:1"
                assert.equal(expected .. "false false false false false nil nil ",
                    dir:printed({ "run", "--no-log", "p.lua" }, { env = env }))
                env[name] = ""
            end
        end)

    it("connects to no private address by a name that anybody might register", function()
        local server <close> = require("server").start()
        local port = server.url:match ":(%d+)$"
        local r = run(([[
            for _, name in ipairs { "localhost", "0x7f.0.0.1" } do
                local reply, _, code = fetch("http://" .. name .. ":%s/x")
                print(reply and reply.status, code)
            end]]):format(port), { "--allow-net", "localhost:" .. port .. ",0x7f.0.0.1:" .. port })
        assert.same({ "200\tnil\nnil\tDENIED\n", "" }, { r.out, r.err })
        assert.equal(1, server:counters().requests)
        r = run(([[
            for _, place in ipairs { "http://localhost:%s", "http://localhost:443",
                "https://localhost:80", "http://localhost.:80", "http://LOCALHOST:80",
                "http://localhost", "https://localhost:443" } do
                local _, _, code = fetch(place .. "/x", { timeout_ms = 1 })
                print(code == "DENIED")
            end]]):format(port), { "--allow-net", "localhost" }) -- at the ports of HTTP and HTTPS
        assert.same({ ("true\n"):rep(4) .. ("false\n"):rep(3), "" }, { r.out, r.err })
        r = run("", { "--allow-net", "[::1]:80" })
        assert.same({ 1, "ponder: --allow-net: \"[::1]:80\" is not HOST or HOST:PORT [SANDBOX]\n" },
            { r.status, r.err })
    end)

    it("runs the given tools in the parent", function()
        local r = run([[
            print(tool("add", { 2, 3 }))
            print(tool("home"))
            print(select(3, tool("fails", 1)), select(3, tool("odd", 1)), select(3, tool "none"))
            print(tool("no", 1))
            print(tool("no", 2))]],
            { "--allow-tool", "add.lua,home=env.lua,fails=fails.lua,odd=odd.lua,no.lua" }, {
                ["no.lua"] = "return function(n) return nil, 'no', n == 1 and 'NO' or nil end",
                ["add.lua"] = "return { run = function(list) return list[1] + list[2] end }",
                ["env.lua"] = "return function() return #os.getenv 'OPENAI_API_KEY' end",
                ["fails.lua"] = "return function() error 'oh' end",
                ["odd.lua"] = "return function() return print end" })
        assert.same({ "5\tnil\tnil\n9\tnil\tnil\nERROR\tERROR\tDENIED\nnil\tno\tNO\n"
            .. "nil\tno\tnil\n", "" },
            { r.out, r.err })
    end)

    it("refuses its flags without --untrusted", function()
        local r = shell.ponder { "run", "--allow-read", "/", "-e", "" }
        assert.same({ 2, "ponder run: --allow-read is for --untrusted\n" }, { r.status, r.err })
    end)

    it("is explained by ponder help safety", function()
        local text = shell.ponder({ "help", "safety" }).out
        for _, word in ipairs { "Landlock", "seccomp", "Redis", "nmap", "OpenResty",
            "safe.directory", "--weak-isolation" } do
            assert.is_true(text:find(word, 1, true) ~= nil, word)
        end
    end)
end)
