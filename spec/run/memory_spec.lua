-- Memory: limited by --max-memory-mb, returned when it is free, and by default within the limit of
-- the control group.

local shell = require "shell"
local size = require "size"

-- The sanitizers take a multiple of each allocation.
local it_limited = size.SANITIZED and pending or it

local STATUS = [[
local function kib(field)
    return math.tointeger(io.open("/proc/self/status"):read("a"):match(field .. ":%s*(%d+)"))
end
]]

local function printed(arguments, code)
    arguments[#arguments + 1] = "-e"
    arguments[#arguments + 1] = STATUS .. code
    return shell.printed(arguments)
end

describe("--max-memory-mb", function()
    for what, code in pairs {
        ["small objects"] = "local t = {} for i = 1, 1e9 do t[i] = { i } end",
        ["strings of all sizes"] =
            "local t = {} for i = 1, 1e9 do t[i] = ('x'):rep(i % 700) .. i end",
        ["lists that grow"] = "local t = {} for i = 1, 1e9 do t[i % 64] = t[i % 64] or {} "
            .. "table.insert(t[i % 64], i) end",
    } do
        it_limited("holds for " .. what, function()
            local used, peak = printed({ "--max-memory-mb", "64" }, ([[
                local host = require "ponder.core.host"
                local ok, message = pcall(function() %s end)
                local used = host.memory()
                collectgarbage()
                assert(not ok and message:find "not enough memory", message)
                print(used, kib "VmHWM")]]):format(code))
                :match "(%d+)\t(%d+)"
            assert.is_true(tonumber(used) > 48 << 20 and tonumber(used) <= 64 << 20, used)
            assert.is_true(tonumber(peak) < 112 << 10, peak .. " KiB") -- what malloc adds
        end)
    end
end)

describe("memory", function()
    it_limited("is bounded for an answer whose client reads slowly", function()
        local dir <close> = shell.directory()
        local r = shell.ponder({ "--no-log", "--max-memory-mb", "48", "-e", ([[
            local loop = require "ponder.core.loop"
            local path = "%s/socket"
            local server = assert(require("ponder.core.http").listen { address = "unix:" .. path })
            local client = require("ponder.core.process").start({ "curl", "-sN", "--unix-socket",
                path, "http://localhost/" }, { "PATH=" .. os.getenv "PATH" }, nil, 1 << 16)
            local request
            repeat
                loop.wait(20)
                request = server:take()
            until request
            assert(server:begin(request.id, 200))
            local piece, read = ("x"):rep(1 << 16), 0
            for _ = 1, 40 do assert(server:write(request.id, piece)) end
            for _ = 1, 1600 do -- 100 MiB; what has not been read stays 2.5 MiB
                local bytes = 0
                while bytes < #piece do
                    loop.wait(20)
                    bytes = bytes + #client:read "stdout"
                end
                read = read + bytes
                assert(server:write(request.id, ("x"):rep(bytes)))
            end
            print(read >= 1600 * #piece)]]):format(dir.path) })
        assert.same({ 0, "true\n", "" }, { r.status, r.out, r.err })
    end)

    it_limited("goes back to the system when it is free", function()
        local before, most, after = printed({}, [[
            local before = kib "VmRSS"
            local t = {}
            for i = 1, 1000000 do t[i] = { i } end
            for i = 1, 300000 do t[i] = ("x"):rep(i % 900) .. i end
            local most = kib "VmRSS"
            t = nil
            collectgarbage()
            collectgarbage()
            print(before, most, kib "VmRSS")]]):match "(%d+)\t(%d+)\t(%d+)"
        assert.is_true(most - before > 64 * 1024, most)
        assert.is_true(after - before < (most - before) / 2, after)
    end)
end)

describe("the limit of a control group", function()
    local function limit(groups, files)
        local all = { groups = groups }
        for name, text in pairs(files) do
            all["fs/" .. name] = text
        end
        local dir <close> = shell.directory(all)
        return printed({}, ("print(require('ponder.cli.shared.memory').group_limit('%s/groups', "
            .. "'%s/fs'))"):format(dir.path, dir.path)):match "[^\n]*"
    end

    for what, case in pairs {
        ["is read, of version 2"] = { "5000", "0::/a/b\n", { ["a/b/memory.max"] = "5000\n" } },
        ["may be none, of version 2"] = { "inf", "0::/a/b\n", { ["a/b/memory.max"] = "max\n" } },
        ["is read, of version 1"] = { "7000", "5:cpu:/x\n4:memory:/c\n0::/\n",
            { ["memory/c/memory.limit_in_bytes"] = "7000\n" } },
        ["is the lowest of it and those above"] = { "3000", "0::/a/b\n", { ["a/b/memory.max"] =
            "5000\n", ["a/memory.max"] = "3000\n", ["memory.max"] = "4000\n" } },
        ["is that of the root if only that is mounted, as in a container"] = { "6000",
            "4:memory:/docker/0123\n", { ["memory/memory.limit_in_bytes"] = "6000\n" } },
        ["may be absent"] = { "inf", "", {} },
        ["may be absent from a file that is not one"] = { "inf", "nonsense\n0::/a\n", {} },
    } do
        it(what, function() assert.equal(case[1], limit(case[2], case[3])) end)
    end

    it("is what a script is told from its first line on", function()
        if shell.run("unshare -rm true 2>/dev/null").status ~= 0 then
            pending "no user namespaces here"
        end
        local dir <close> = shell.directory { ["memory.max"] = "209715200\n",
            ["memory/memory.limit_in_bytes"] = "209715200\n" }
        local code = "print((select(2, require([[ponder.core.host]]).memory())))"
        local r = shell.run(("unshare -rm sh -c 'mount --bind %s /sys/fs/cgroup && %s -e \"%s\"' "
            .. ">$OUT 2>$ERR"):format(dir.path, shell.executable, code))
        assert.same({ "157286400\n", "" }, { r.out, r.err })
    end)
end)
