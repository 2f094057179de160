-- ponder log: filters of stored runs, and the runs of one file.

local json = require "ponder.json"
local sample_log = require "sample_log"
local shell = require "shell"

describe("ponder log", function()
    local dir

    local function list(...)
        local names = {}
        for line in dir:printed({ "log", "--json", ... }, { env = {
            XDG_STATE_HOME = dir.path .. "/state", TZ = "UTC" } }):gmatch "[^\n]+" do
            local run = json.decode(line)
            names[#names + 1] = ("%s %d"):format(run.run_name or run.name, run.number)
        end
        return names
    end

    setup(function()
        dir = shell.directory { ["state/ponder/x"] = "" }
        for i, name in ipairs { "old", "middle", "new" } do
            sample_log.write(("%s/state/ponder/%s.db"):format(dir.path, name), function(db)
                db:execute("UPDATE runs SET started_at = started_at + ?", i * 86400)
                if name == "middle" then
                    db:execute [[UPDATE runs SET status = 'failed', error = 'Out of LUCK']]
                elseif name == "old" then
                    db:execute([[INSERT INTO runs (id, uid, command, arguments, seed, options,
                        versions, started_at, status) VALUES
                        (2, '02', 'run', '[]', 1, '{}', '{}', 1760000000, ?),
                        (3, '03', 'run', '[]', 1, '{}', '{}', 1e308, 'completed')]],
                        "\27]0;\7done")
                end
                if name == "middle" then
                    for id = 2, 3 do
                        db:execute([[INSERT INTO runs (id, uid, parent, name, labels, command,
                            arguments, seed, options, versions, started_at, status) VALUES
                            (?, ?, 1, ?, '{"set":"b"}', 'run', '[]', 1, '{}', '{}', 1760000000,
                            'completed')]], id, "0" .. id, "inner " .. id)
                    end
                end
            end)
        end
    end)
    teardown(function() dir:__close() end)

    it("filters by text, by status and by date", function()
        assert.same({ "new 1", "middle 2", "old 3" }, list())
        assert.same({ "middle 2" }, list("--grep", "luck"))
        assert.same({}, list("--grep", "l.ck"))
        assert.same({ "middle 2" }, list("--status", "failed"))
        assert.same({ "new 1" }, list("--status", "completed", "--limit", "1"))
        assert.same({ "new 1", "middle 2" }, list("--since", "2025-10-11"))
        assert.same({}, list("--since", "1h"))
        for _, since in ipairs { "soon", "2026-99-99", "2026-02-30", "2026-00-01", "" } do
            local result = shell.ponder { "log", "--since", since }
            assert.equal(2, result.status)
            assert.matches("%-%-since: expected a date", result.err)
        end
    end)

    it("counts the calls of the runs that a run started", function()
        local evaluated <close> = shell.directory()
        local env = { XDG_STATE_HOME = evaluated.path }
        local function first(...)
            return json.decode(shell.ponder({ "log", "--json", ... }, { env = env })
                .out:match "[^\n]+")
        end
        shell.ponder({ "eval", shell.root .. "/scripts/eval/game24.lua", "--limit", "3",
            "--policy", "io" }, { env = env })
        local whole = first()
        assert.same({ 3, 0 }, { whole.calls, first(whole.path).calls })
    end)

    it("lists the runs of a file, whose numbers other commands accept", function()
        local path = dir.path .. "/state/ponder/middle.db"
        assert.same({ "middle 1", "inner 2 2", "inner 3 3" }, (function()
            local names = list(path)
            names[1] = names[1]:gsub("^.*/", ""):gsub("%.db ", " ")
            return names
        end)())
        assert.same({ "inner 2 2", "inner 3 3" }, list(path, "--grep", '"set":"b"'))
        assert.matches("  run: inner 2  ", shell.ponder({ "log", path }).out)
        assert.matches("\nname      inner 3\nlabels    set=b\nwithin    run 1\n",
            shell.ponder({ "show", path .. "#3" }).out)
        local result = shell.ponder { "show", "--json", path .. "#3" }
        assert.same({ 0, "" }, { result.status, result.err })
        result = shell.ponder { "show", path .. "#99999999999999999999" }
        assert.matches("holds no run 9223372036854775807", result.err)
        result = shell.ponder { "show", path .. "#4" }
        assert.same({ 2, ("ponder show: %s: holds no run 4\n"):format(path) },
            { result.status, result.err })
    end)

    it("reads no run of a file beyond the limit, and shows any status on a terminal", function()
        local path = dir.path .. "/state/ponder/old.db"
        local result = shell.ponder { "log", path, "--limit", "2" }
        assert.same({ 0, "" }, { result.status, result.err })
        assert.matches("  %]0; done  ", result.out)
        assert.matches("damaged", shell.ponder({ "log", path, "--limit", "3" }).err)
    end)
end)
