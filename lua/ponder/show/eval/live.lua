--- The table of a running evaluation, redrawn in place on a terminal.

local amount = require "ponder.show.amount"
local grid = require "ponder.show.grid"
local stats = require "ponder.stats"
local tables = require "ponder.show.eval.table"
local text = require "ponder.show.text"
local view = require "ponder.show.terminal"

local live = {}

local REDRAW_S = 0.2

local COLUMNS = {
    { "POLICY", least = 6 },
    { "DONE", right = true },
    { "RUNNING", right = true, drop = 3 },
    { "ACCURACY", right = true },
    { "95 %", right = true, drop = 2 },
    { "COST", right = true, drop = 1 },
}

---The lines of the live table.
---@param progress ponder.eval.Progress
function live.lines(progress, style, now)
    local rows, each = {}, progress.total // #progress.policies
    for i, tally in ipairs(progress.policies) do
        local limits = tally.done > 0 and tally.binary
            and stats.wilson(math.tointeger(tally.score), tally.done)
        rows[i] = { text.line(tally.name), ("%d/%d"):format(tally.done, each),
            tostring(tally.running),
            tables.score(tally.done > 0 and tally.score / tally.done or nil, tally.binary),
            limits and ("%.0f..%.0f"):format(limits[1] * 100, limits[2] * 100) or "-",
            amount.cost(tally) }
    end
    local columns, height = style:size()
    local lines = grid.new(COLUMNS, rows, style):lines(rows)
    lines = table.move(lines, 1, math.min(#lines, math.max(height - 4, 1)), 1, {})
    local elapsed = now - progress.started
    local facts = { ("%d of %s"):format(progress.done, amount.of(progress.total, "run")),
        progress.running .. " running", amount.seconds(elapsed) }
    if progress.done > 0 and progress.done < progress.total then
        facts[#facts + 1] = ("about %s left"):format(amount.seconds(
            elapsed / progress.done * (progress.total - progress.done)))
    end
    for _, line in ipairs(text.flow(facts, columns - 2, "", style:mark())) do
        lines[#lines + 1] = line
    end
    return lines
end

---Draws the table until it is closed.
---@param out file*
---@param clock fun(): number
---@return {take: fun(progress: ponder.eval.Progress)} table to be closed
function live.start(out, style, clock)
    local latest
    local drawn = view.new(out, style, nil)
    function drawn.lines()
        return latest and live.lines(latest, style, clock()) or {}
    end
    function drawn.take(progress)
        latest = progress
    end
    return drawn:start(REDRAW_S)
end

return live
