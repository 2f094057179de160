-- ponder repl, piped and in a terminal.

local screen = require "screen"
local shell = require "shell"

local NOWHERE = { HOME = "/nonexistent", XDG_STATE_HOME = "" }

-- What the prompt prints for piped input, and on standard error.
local function piped(input)
    local r = shell.ponder({ "repl" }, { input = input, env = NOWHERE })
    assert.equal(0, r.status)
    return r.out, r.err
end

describe("ponder repl, piped,", function()
    it("prints values and keeps globals", function()
        assert.equal("2\n5\t6\n\"text\"\nnil\n{ 1, 2, a = a table }\n",
            (piped "1+1\nx = 5\nx, 6\n'text'\nnil\n{ 1, 2, a = {} }\n"))
    end)

    it("accepts a last line without a line break, and empty input", function()
        assert.equal("2\n", (piped "1+1"))
        assert.equal("", (piped ""))
        assert.equal("", (piped "\n\n"))
    end)

    it("reads statements of several lines", function()
        assert.equal("1\n2\n", (piped "for i = 1, 2 do\nprint(i)\nend\n"))
        local _, err = piped "for i = 1, 2 do"
        assert.matches("stdin:1: 'end' expected near <eof>", err)
    end)

    it("continues after an error", function()
        local out, err = piped "error 'boom'\nx = = 1\nerror({})\n7\n"
        assert.equal("7\n", out)
        assert.matches("ponder: stdin:1: boom\nstack traceback:\n\tstdin:1: ", err)
        assert.matches("stdin:1: unexpected symbol near '='", err)
        assert.matches("a table value was raised", err)
    end)

    it("has ponder's modules as globals, and tasks", function()
        assert.equal("\"function\"\n\"[1]\"\n3\n\"nil\"\n", (piped [[
            type(search.run)
            json.encode { 1 }
            task.spawn(function() task.sleep(0.001) return 3 end):join()
            type(nothing_of_that_name)]]))
    end)

    it("refuses binary code and ends by os.exit", function()
        local _, err = piped("\27Lua\n")
        assert.matches("binary", err)
        assert.equal(3, shell.ponder({ "repl" }, { input = "os.exit(3)\n1", env = NOWHERE }).status)
    end)
end)

-- What is typed before the prompt is there may arrive while the terminal still reads whole lines:
-- Ctrl-D would then be lost.
local PROMPT = "\r\n> "

describe("ponder repl in a terminal", function()
    local function typed(steps, env, ...)
        local r = shell.terminal({ "repl", ... }, steps, env or NOWHERE)
        return (r.out:gsub("\r", "")), r.status
    end

    it("greets, prompts and ends at Ctrl-D", function()
        local out, status = typed { { PROMPT, "1+1\n" }, { "2" .. PROMPT, "\4" } }
        assert.matches("^ponder [%d.]+, Lua 5.4; Ctrl%-D ends\n> ", out)
        assert.matches("\n2\n> ", out)
        assert.equal(0, status)
    end)

    it("stops running code at Ctrl-C, and continues", function()
        local out, status = typed {
            { PROMPT, "print('runs ' .. 1) while true do end\n" }, { "runs 1", "\3" },
            { "interrupted" .. PROMPT, "print('runs ' .. 2) task.sleep(50)\n" },
            { "runs 2", "\3" }, { "interrupted" .. PROMPT, "'still ' .. 'here'\n" },
            { '"still here"' .. PROMPT, "\4" },
        }
        assert.equal(2, select(2, out:gsub("ponder: interrupted\n", "")))
        assert.matches('"still here"', out)
        assert.equal(0, status)
    end)

    it("begins a new line at Ctrl-C", function()
        local out = typed { { PROMPT, "x = (" }, { "x = (", "\3" },
            { PROMPT, "'new ' .. 'line'\n" }, { '"new line"' .. PROMPT, "\4" } }
        assert.matches('"new line"', out)
    end)

    it("ends by a signal or when its time is up, and restores the terminal", function()
        for arguments, status in pairs { [""] = 143, ["--timeout 0.5"] = 124 } do
            local dir <close> = shell.directory()
            local started = os.time()
            local r = shell.terminal({ "-e", ("os.execute %q"):format(
                ("bash -mc '%s repl %s; echo status $?; stty -a >%s/after'"):format(
                    shell.executable, arguments, dir.path)) }, { { PROMPT,
                status == 143 and "os.execute '(sleep 0.3; kill -TERM $PPID) &'\n" or "x = (" },
                { "status ", "" } },
                NOWHERE)
            assert.matches("status " .. status, r.out)
            assert.matches("[^-]icanon.*[^-]echo ", dir:read "after")
            assert.is_true(os.time() - started < 5)
        end
    end)

    it("completes names", function()
        local out = typed { { PROMPT, "json.enc\t{ 1 }\n" }, { '"[1]"' .. PROMPT,
            "answers = 42\n" },
            { PROMPT, "answ\t\n" }, { "42" .. PROMPT, "text = 'abc'\n" },
            { PROMPT, "text:upp\t()\n" }, { '"ABC"' .. PROMPT, "text:re\t" },
            { "rep  reverse\r\n", "v\t():upper()\n" }, { '"CBA"' .. PROMPT, "\4" } }
        assert.matches('"CBA"', out)
    end)

    it("keeps a history of lines", function()
        local dir <close> = shell.directory()
        local env = { HOME = dir.path, XDG_STATE_HOME = "" }
        typed({ { PROMPT, "first = 1\n" }, { PROMPT, "\4" } }, env)
        assert.matches("first", dir:read(".local/state/ponder/history"))
        -- Up twice: the line of the run before.
        typed({ { PROMPT, "second = 2\n" }, { PROMPT, "\27[A\27[A" }, { "first = 1", "\n" },
            { PROMPT, "'it is ' .. first\n" }, { '"it is 1"' .. PROMPT, "\4" } }, env)
        typed({ { PROMPT, "third = 3\n" }, { PROMPT, "\4" } },
            { HOME = "/nonexistent", XDG_STATE_HOME = dir.path .. "/state" })
        assert.matches("third", dir:read("state/ponder/history"))
    end)

    it("restores the terminal when it is stopped, and continues editing", function()
        local dir <close> = shell.directory()
        local s <close> = screen.open({ "-e", ("os.execute %q"):format(
            ("bash -mc '%s repl; stty -a >%s/stopped; fg'"):format(shell.executable, dir.path)) },
            { env = NOWHERE, columns = 200 })
        s:wait "ends\n>"
        s:press "'half a "
        s:press "C-z"
        repeat
            os.execute "sleep 0.02"
        until os.rename(dir.path .. "/stopped", dir.path .. "/stopped")
        s:press "line'"
        s:press "Enter"
        s:wait '"half a line"'
        assert.matches("[^-]icanon", dir:read "stopped")
        assert.matches("[^-]echo ", dir:read "stopped")
        s:press "C-d"
        assert.equal(0, (s:finish()))
    end)
end)
