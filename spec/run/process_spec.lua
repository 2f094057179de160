-- ponder.process: running programs, exchanging lines, limits, ends, and the log.

local help = require "task_help"
local log_help = require "log_help"
local process = require "ponder.process"
local shell = require "shell"
local task = require "ponder.task"
local within = require "within"

local raises = help.raises
local HERE = "spec/run/process_spec.lua:%d+" -- as a pattern

local function run(opts)
    return task.run(function()
        local results = table.pack(process.run(opts))
        return table.unpack(results, 1, results.n)
    end)
end

-- Whether a process still runs; waits for its end, since killing is not immediate.
local function is_alive(pid)
    for _ = 1, 200 do
        local file = io.open(("/proc/%s/stat"):format(pid))
        local state = file and file:read("a"):match "^%d+ %(.*%) (%a)"
        if file then file:close() end
        if not state or state == "Z" then return false end
        os.execute "sleep 0.02"
    end
    return true
end

local function read_when_there(path)
    for _ = 1, 500 do
        local file = io.open(path)
        local text = file and file:read "a" or ""
        if file then file:close() end
        if text:find "\n$" then return text end
        os.execute "sleep 0.01"
    end
    error("nothing was written to " .. path)
end

describe("process.run", function()
    it("returns status, signal and both streams", function()
        assert.same({ status = 0, stdout = "out\n", stderr = "" }, run {
            command = { "echo", "out" } })
        assert.same({ status = 3, stdout = "", stderr = "err\n" }, run {
            command = "echo err >&2; exit 3", shell = true })
        assert.same({ signal = "SIGTERM", stdout = "", stderr = "" }, run {
            command = "kill -TERM $$", shell = true })
    end)

    it("uses no shell unless asked to", function()
        assert.equal("$HOME; `id` | *\n", run { command = { "echo", "$HOME; `id` | *" } }.stdout)
    end)

    it("passes input and output unchanged", function()
        local bytes = {}
        for i = 0, 255 do
            bytes[i + 1] = string.char(i)
        end
        local all = table.concat(bytes):rep(4000) -- more than pipes hold
        assert.is_true(all == run { command = { "cat" }, input = all }.stdout)
        assert.equal("in", run { command = { "cat", "/dev/stdin" }, input = "in" }.stdout)
        assert.equal("", run { command = { "cat" } }.stdout)
    end)

    it("does not wait for a program that does not read", function()
        local done = run { command = { "true" }, input = ("x"):rep(1 << 20) }
        assert.equal(0, done.status)
    end)

    it("lets other tasks continue", function()
        local dir <close> = shell.directory()
        local file = dir.path .. "/there"
        task.run(function()
            local results = task.map({
                { command = ("while [ ! -e %s ]; do sleep 0.01; done; echo seen"):format(file),
                    shell = true },
                { command = { "touch", file } },
            }, process.run)
            assert.equal("seen\n", results[1].stdout)
        end)
    end)

    it("accepts a directory", function()
        assert.equal("/\n", run { command = { "pwd" }, cwd = "/" }.stdout)
        local done, message, code = run { command = { "pwd" }, cwd = "/nowhere" }
        assert.same({ nil, "cannot start pwd: No such file or directory (in /nowhere)",
            "NOT_FOUND" }, { done, message, code })
    end)

    it("reports what cannot be started", function()
        local done, message, code = run { command = { "no-such-program" } }
        assert.same({ nil, "cannot start no-such-program: No such file or directory", "NOT_FOUND" },
            { done, message, code })
        done, message, code = run { command = { "/" } }
        assert.same({ nil, "cannot start /: Permission denied", "SPAWN" }, { done, message, code })
    end)

    it("reports when no descriptor is left", function()
        local script = [[
            local held = {}
            repeat
                local file = io.open "/dev/null"
                held[#held + 1] = file
            until not file
            for _ = 1, %d do table.remove(held):close() end
            local done, message, code = require("ponder.process").run { command = { "true" } }
            print(done and done.status, message, code)]]
        local r = shell.run(("ulimit -n 64; exec %s -e %s >$OUT 2>$ERR"):format(
            shell.executable, shell.quote(script:format(9))))
        assert.same("", r.err)
        assert.equal("nil\tcannot start true: Too many open files (EMFILE: raise `ulimit -n`)"
            .. "\tSPAWN\n", r.out)
    end)

    it("kills programs that take too long, and returns their output", function()
        local dir <close> = shell.directory()
        local done, message, code, partial = run { shell = true, timeout_ms = 300,
            command = ("sleep 1000 & echo $! > %s/pid; echo begun; wait"):format(dir.path) }
        assert.same({ nil, "/bin/sh did not answer within timeout_ms (300)", "TIMEOUT",
            { stdout = "begun\n", stderr = "" } }, { done, message, code, partial })
        assert.is_false(is_alive(dir:read("pid"):match "%d+"))
    end)

    it("kills programs that write too much", function()
        local done, message, code, partial = run { command = { "yes" }, max_output_bytes = 7 }
        assert.same({ nil, "stdout of yes exceeds max_output_bytes (7)", "TOO_LARGE",
            { stdout = "y\ny\ny\ny", stderr = "" } }, { done, message, code, partial })
    end)

    it("kills its child and all descendants when cancelled", function()
        local dir <close> = shell.directory()
        local file = dir.path .. "/pid"
        task.run(function()
            local h = task.spawn(process.run, { shell = true,
                command = ("sleep 1000 & echo $! > %s; wait"):format(file) })
            task.sleep(0)
            local pid = read_when_there(file):match "%d+"
            h:cancel()
            assert.is_false(is_alive(pid))
        end)
    end)

    it("kills descendants that a program leaves behind", function()
        local done = run { command = "sleep 1000 & echo $!", shell = true }
        assert.equal(0, done.status)
        assert.is_false(is_alive(done.stdout:match "%d+"))
    end)

    it("leaves nothing open", function()
        local dir <close> = shell.directory()
        local function open_files() -- by no io.popen: the shell may look before it closes its end
            os.execute("ls /proc/$PPID/fd >" .. dir.path .. "/list")
            return dir:read "list"
        end
        run { command = { "true" } }
        run { command = { "no-such-program" } }
        task.run(task.sleep, 0.001)
        local before = open_files()
        for _ = 1, 5 do
            run { command = { "true" } }
            run { command = { "no-such-program" } }
            run { command = { "sleep", "1000" }, timeout_ms = 1 }
        end
        task.run(task.sleep, 0.001)
        assert.equal(before, open_files())
    end)

    it("checks its options", function()
        raises(HERE .. ": process.run: opts.command must be a list %(a string needs shell = true%)",
            function() run { command = "ls" } end)
        for opts, message in pairs {
            [{ command = { "ls" }, shell = true }] = "opts.command must be a string for the shell",
            [{ command = {} }] = "opts.command must name a program",
            [{ command = { "ls", 1 } }] = "opts.command%[2%] must be a string .* %(got 1%)",
            [{ command = { "echo", nil, "b" } }] = "opts.command%[2%] must be .* %(got nil%)",
            [{ command = { "ls" }, env = { A = 1 } }] = "opts.env must list variable names, and",
            [{ command = { "ls" }, env = { "A=1" } }] = "opts.env must list variable names, and",
            [{ command = { "ls" }, cwd = "/tmp\0/x" }] = "opts.cwd must be a path without NUL",
            [{ comand = { "ls" } }] = 'unknown option "comand"',
        } do
            raises("process.run: " .. message, run, opts)
        end
        raises("process.run: call it within a task", process.run, { command = { "ls" } })
    end)
end)

it("numbers as arguments of a process outlive collections", function()
    local r = shell.run(("LUA_CPATH=%s %s - <$IN >$OUT 2>$ERR"):format(shell.quote(package.cpath),
        shell.LUA), [[
        local core, loop = require "ponder.core.process", require "ponder.core.loop"
        local arguments, lines, out = { "printf", "%s\n" }, {}, {}
        for i = 1, 2000 do
            arguments[i + 2] = 1e9 + i + 0.5
            lines[i] = tostring(arguments[i + 2]) .. "\n"
        end
        local expected = table.concat(lines)
        lines = nil
        collectgarbage("incremental", 0, 1000, 13)
        collectgarbage()
        local child = core.start(arguments, { "PATH=" .. os.getenv "PATH" }, nil, 1 << 20)
        repeat
            loop.wait(20)
            out[#out + 1] = child:read "stdout"
        until child:ended() and #table.concat(out) >= #expected
        print(table.concat(out) == expected)]])
    assert.same({ "true\n", "", 0 }, { r.out, r.err, r.status })
end)

describe("the environment of a child", function()
    local script = [[
        local done = require("ponder.process").run { command = { "env" }, env = %s }
        local lines = {}
        for line in done.stdout:gmatch "[^\n]+" do
            if line:find "^X_" or line:find "KEY" then lines[#lines + 1] = line end
        end
        table.sort(lines)
        print(table.concat(lines, " "))]]

    local function printed(env)
        return shell.ponder({ "-e", script:format(env) }, { env = { OPENAI_API_KEY = "sk-1",
            X_TOKEN = "t", X_URL = "http://me:pw@host/", X_PLAIN = "p" } }).out
    end

    it("has no secret", function()
        assert.equal("X_PLAIN=p\n", printed "nil")
    end)

    it("has the named and the given variables", function()
        assert.equal("OPENAI_API_KEY=sk-1 X_PLAIN=other X_TOKEN=t\n",
            printed '{ "OPENAI_API_KEY", "X_TOKEN", X_PLAIN = "other" }')
    end)
end)

describe("process.open", function()
    local function open(opts, f)
        return task.run(function()
            local p <close> = assert(process.open(opts))
            return f(p)
        end)
    end
    local opened = within(open)

    it("exchanges lines", opened({ command = { "cat" } }, function(p)
        for i = 1, 100 do
            assert.is_true(p:write(("line %d\n"):format(i)))
            assert.equal("line " .. i, p:read_line())
        end
        assert.is_true(p:write "the last has no end")
        assert.is_true(p:close_stdin())
        assert.equal("the last has no end", p:read_line())
        assert.same({}, { p:read_line() })
        assert.same({ status = 0, stdout = "", stderr = "" }, p:wait())
    end))

    it("waits while the child reads slowly, and reads no more ahead than it may",
        opened({ command = { "cat" }, max_line_bytes = 1000 }, function(p)
            local writer = task.spawn(function()
                for i = 1, 20000 do
                    p:write(("%050d\n"):format(i))
                end
                p:close_stdin()
            end)
            task.sleep(0.05)
            assert.is_false(writer.state == "done")
            local n = 0
            while n < 20000 do
                n = n + 1
                assert.equal(("%050d"):format(n), p:read_line())
            end
            assert.is_nil(p:read_line())
        end))

    it("keeps the end of standard error, which never blocks the child",
        opened({ command = "yes complain|head -n 50000 >&2; echo done", shell = true }, function(p)
            assert.equal("done", p:read_line())
            local done = p:wait()
            assert.equal(0, done.status)
            assert.equal(64 * 1024, #done.stderr)
            assert.matches("complain\n$", done.stderr)
        end))

    it("refuses a line that is too long", function()
        open({ command = { "yes", ("x"):rep(5000) }, max_line_bytes = 100 }, function(p)
            assert.same({ nil, "a line of yes exceeds max_line_bytes", "TOO_LARGE" },
                { p:read_line() })
        end)
    end)

    it("is written to by several tasks at once",
        opened({ command = "cat >/dev/null", shell = true }, function(p)
            local written = task.map({ 1, 2, 3, 4, 5 }, function()
                return p:write(("x"):rep(1 << 20))
            end)
            assert.same({ true, true, true, true, true, n = 5 }, written)
        end))

    it("kills by the name of a signal, and reports the signal",
        opened({ command = { "cat" } }, function(p)
            assert.same({ nil, "cat did not answer within timeout_ms (1)", "TIMEOUT" },
                { p:read_line(1) })
            assert.same({ nil, "cat did not answer within timeout_ms (1)", "TIMEOUT" },
                { p:wait(1) })
            assert.is_true(p:kill())
            assert.equal("SIGTERM", p:wait().signal)
            assert.same({ nil, "cat has closed its standard input", "EPIPE" }, { p:write "x" })
        end))

    it("reports that it is closed", opened({ command = { "cat" } }, function(p)
        local reader = task.spawn(function() return p:read_line() end)
        task.sleep(0.01)
        p:close()
        assert.same({ nil, "the process is closed", "CLOSED" }, { reader:join() })
        assert.same({ nil, "the process is closed", "CLOSED" }, { p:write "x" })
        p:close()
    end))

    it("ends with the task that opened it, if that is cancelled or fails", function()
        local function pid_of(p)
            return p:read_line()
        end
        local command = { command = "echo $$; sleep 1000", shell = true }
        local cancelled, failed, kept
        task.run(function()
            local a = task.spawn(function()
                cancelled = process.open(command)
                task.park()
            end)
            local b = task.spawn(function()
                failed = process.open(command)
                failed.number = pid_of(failed)
                error "b fails"
            end)
            local c = task.spawn(function() kept = process.open(command) end)
            c:join()
            b:join()
            local pid = pid_of(cancelled)
            a:cancel()
            assert.is_false(is_alive(pid))
            assert.is_false(is_alive(failed.number))
            pid = pid_of(kept)
            kept:close()
            assert.is_false(is_alive(pid))
        end)
    end)

    it("is killed when it is collected", function()
        task.run(function()
            local pid = process.open({ command = "echo $$; sleep 1000", shell = true }):read_line()
            collectgarbage()
            collectgarbage()
            assert.is_false(is_alive(pid))
        end)
    end)

    it("checks its arguments", opened({ command = { "cat" } }, function(p)
        raises(HERE .. ": process:write: bytes must be a string %(got nil%)", function()
            p:write()
        end)
        raises("process:read_line: timeout_ms must be an integer >= 1 %(got 0%)", p.read_line,
            p, 0)
        raises('process:kill: signal must be a signal name such as "SIGTERM" %(got 9%)', p.kill,
            p, 9)
        raises(HERE .. ': process:kill: signal must be .* %(got "SIGNOPE"%)', function()
            p:kill "SIGNOPE"
        end)
    end))
end)

describe("no child outlives ponder", function()
    local term = "kill -TERM $PPID; sleep 0.1; "
    for how, code in pairs { ["a third signal"] = ("os.execute %q"):format(term:rep(3)),
        ["os.exit"] = "os.exit(0)", ["an error"] = 'error "x"', ["its end"] = "" } do
        it("that ends by " .. how, function()
            local dir <close> = shell.directory()
            local file = dir.path .. "/pid"
            shell.ponder { "-e", ([[
                local p = require("ponder.process").open { shell = true,
                    command = "sleep 1000 & echo $! > %s; echo; sleep 1000" }
                p:read_line()
                kept = p
                %s]]):format(file, code) }
            assert.is_false(is_alive(dir:read("pid"):match "%d+"))
        end)
    end

    it("that ends by SIGKILL, except what the child has started", function()
        local dir <close> = shell.directory()
        shell.ponder { "-e", ([[
            kept = require("ponder.process").open { shell = true,
                command = "sleep 1000 & echo $$ $! > %s/pid; echo; sleep 1000" }
            kept:read_line()
            os.execute "kill -KILL $PPID"]]):format(dir.path) }
        local pid, its_child = dir:read("pid"):match "(%d+) (%d+)"
        assert.is_false(is_alive(pid))
        os.execute("kill -KILL " .. its_child)
    end)
end)

describe("a child of a logged run", function()
    local w

    setup(function() w = log_help.open() end)
    teardown(function() w:close() end)

    it("is not run again", function()
        w:begin [[
            local process = require "ponder.process"
            local done = process.run { command = "echo ran >> ran; printf '\\377\\0\\351'",
                shell = true, input = "\xFE", env = { MY_TOKEN = "t0ken" .. "-12345678" } }
            say(done.status, #done.stdout, done.stdout:byte(1, -1))
            say(select(2, process.run { command = { "no-such-program" } }))
            local p <close> = process.open { command = "cat; echo end >> ran", shell = true }
            say(p:write "a\nb\n", p:read_line(), p:close_stdin(), p:read_line(), p:read_line())
            say(p:wait().status, ask "one")]]
        local first = w:run()
        assert.same({ 0, "" }, { first.status, first.err })
        assert.matches("^0\t3\t255\t0\t233\ncannot start no%-such%-program: No such file or "
            .. "directory\tNOT_FOUND\ntrue\ta\ttrue\tb\tnil\n0\t%d+\n$", first.out)
        assert.equal("ran\nend\n", w.dir:read "ran")
        assert.is_nil(w:bytes():find("t0ken-12345678", 1, true))
        local again = w:replay()
        assert.same({ 0, first.out, "" }, { again.status, again.out, again.err })
        assert.equal("ran\nend\n", w.dir:read "ran")
    end)

    it("that exchanged lines is not available to a resumed run", function()
        w:begin [[
            local p <close> = require("ponder.process").open { command = { "cat" } }
            p:write "a\nb\n"
            say(ask "one", p:read_line())
            if not os.rename("marker", "marker") then
                os.execute "touch marker; kill -KILL $PPID"
            end
            say(p:read_line())]]
        assert.equal(137, w:run().status)
        local resumed = w:resume()
        assert.matches("^%d+\ta\nnil\tthe process ended with the session that started it\tLOST\n$",
            resumed.out)
    end)
end)
