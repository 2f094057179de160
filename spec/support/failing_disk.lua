--- A full or broken disk, or a kill during a write, for one run of the executable: from the n-th
--- call on, writing to files named *.db (with their -wal, -shm and -journal)
--- fails.
---
---     local disk = require "failing_disk"
---     local r = disk.ponder({ "run", "a.lua", "--log", "a.db" }, { at = 20 })
---     r.status, r.out, r.err       -- as shell.ponder gives them
---     r.writes, r.failures         -- how many calls wrote to a database, and how many failed

local shell = require "shell"

local disk = {}

local function count(text, pattern)
    return select(2, ("\n" .. text):gsub("\n" .. pattern, "%0"))
end

---The environment of a run whose disk fails. The sanitizers' libraries, where they are needed, come
---first.
---@param failing {at: integer?, times: integer?, error: string?} the first call that writes to fail
---  (none without it); how many in a row, default all; "ENOSPC" (default), "EIO", "EDQUOT",
---  "KILL", which writes half of it and kills the process, or "INT", "TERM", "HUP", a signal that
---  comes with a call that works
---@param log? string a file for a line about each call
---@return table<string, string>
function disk.environment(failing, log)
    return {
        LD_PRELOAD = (os.getenv("PRELOAD") or "") .. " " .. shell.build "failing_disk.so",
        PONDER_FAIL_AT = tostring(failing.at or 0),
        PONDER_FAIL_TIMES = tostring(failing.times or -1),
        PONDER_FAIL_ERROR = failing.error or "ENOSPC",
        PONDER_FAIL_LOG = log,
    }
end

---Runs `ponder ARGUMENTS...` with a failing disk.
---@param arguments string[]
---@param failing {at: integer?, times: integer?, error: string?} see disk.environment
---@param opts? {input: string?, cwd: string?, env: table<string, string>?}
---@return {status: integer, out: string, err: string, writes: integer, failures: integer}
function disk.ponder(arguments, failing, opts)
    opts = opts or {}
    local dir <close> = shell.directory { calls = "" }
    local parts = { "env", "XDG_STATE_HOME=" .. shell.quote(shell.state_home()) }
    for _, list in ipairs { disk.environment(failing, dir.path .. "/calls"), opts.env or {} } do
        for name, value in pairs(list) do
            parts[#parts + 1] = name .. "=" .. shell.quote(value)
        end
    end
    for i = 0, #arguments do
        parts[#parts + 1] = shell.quote(arguments[i] or shell.executable)
    end
    -- Discards the shell's message "Killed".
    local result = shell.run(("exec 2>/dev/null; cd %s; %s <$IN >$OUT 2>$ERR; exit $?"):format(
        shell.quote(opts.cwd or shell.root), table.concat(parts, " ")), opts.input)
    local calls = dir:read "calls"
    result.failures = count(calls, "failed ")
    result.writes = count(calls, "%l")
    return result
end

return disk
