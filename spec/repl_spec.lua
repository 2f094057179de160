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

-- The loader takes an empty file for a broken library and looks no further.
local function hide(dir, libraries)
    for _, name in ipairs(libraries) do dir:write(name, "") end
    return dir.path
end

-- What is typed before the prompt is there may arrive while the terminal still reads whole lines:
-- Ctrl-D would then be lost.
local PROMPT = "\r\n> "

local LIBREADLINE = { "libreadline.so.8", "libreadline.so" }
local BOTH = { "libedit.so.2", "libedit.so", "libreadline.so.8", "libreadline.so" }

local function in_terminal(hidden)
    local function typed(steps, env)
        local dir <close> = shell.directory()
        local all = { LD_LIBRARY_PATH = hide(dir, hidden) }
        for name, value in pairs(env or NOWHERE) do all[name] = value end
        local r = shell.terminal({ "repl" }, steps, all)
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

    if hidden == BOTH then return end

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
end

describe("ponder repl in a terminal", function() in_terminal {} end)
describe("ponder repl in a terminal, with libedit,", function() in_terminal(LIBREADLINE) end)
describe("ponder repl in a terminal, without editing,", function() in_terminal(BOTH) end)

describe("ponder repl, stopped and continued,", function()
    local STOP = [[
        cd "$1"; stty -a </dev/tty >typing
        kill -TSTP $P; sleep 0.3; stty -a </dev/tty >stopped
        kill -CONT $P; sleep 0.3; stty -a </dev/tty >again
        touch over]]

    it("restores the terminal, and continues editing", function()
        local dir <close> = shell.directory { stop = STOP }
        local s <close> = screen.open({ "repl" }, { env = NOWHERE, columns = 200 })
        s:wait "ends\n>"
        s:press(("os.execute '(sleep 0.3; P=$PPID sh %s/stop %s) &'"):format(dir.path, dir.path))
        s:press "Enter"
        s:wait "exit"
        s:press "'half a "
        for _ = 1, 500 do
            if os.rename(dir.path .. "/over", dir.path .. "/over") then break end
            os.execute "sleep 0.02"
        end
        s:press "line'"
        s:press "Enter"
        s:wait '"half a line"'
        assert.matches("%-icanon", dir:read "typing")
        assert.matches("[^-]icanon", dir:read "stopped")
        assert.matches("[^-]echo ", dir:read "stopped")
        assert.matches("%-icanon", dir:read "again")
        s:press "C-d"
        assert.equal(0, (s:finish()))
    end)
end)
