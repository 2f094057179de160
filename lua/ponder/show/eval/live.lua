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

local function row_of(tally, each)
    local accuracy, interval = "-", "-"
    if tally.done > 0 then
        accuracy = tables.score(tally.score / tally.done, tally.binary)
        if tally.binary then
            local limits = stats.wilson(math.tointeger(tally.score), tally.done)
            interval = ("%.0f..%.0f"):format(limits[1] * 100, limits[2] * 100)
        end
    end
    return { text.line(tally.name), ("%d/%d"):format(tally.done, each), tostring(tally.running),
        accuracy, interval, amount.cost(tally) }
end

-- "120 of 400 runs, 12 running, 3.4 s, about 8 s left"
local function sum_up(progress, now)
    local elapsed = now - progress.started
    local facts = { ("%d of %s"):format(progress.done, amount.of(progress.total, "run")),
        progress.running .. " running", amount.seconds(elapsed) }
    if progress.done > 0 and progress.done < progress.total then
        facts[#facts + 1] = ("about %s left"):format(amount.seconds(
            elapsed / progress.done * (progress.total - progress.done)))
    end
    return facts
end

---The lines of the live table.
---@param progress ponder.eval.Progress
function live.lines(progress, style, now)
    local rows = {}
    for i, tally in ipairs(progress.policies) do
        rows[i] = row_of(tally, progress.total // #progress.policies)
    end
    local columns, height = style:size()
    local lines = grid.new(COLUMNS, rows, style):lines(rows)
    lines = table.move(lines, 1, math.min(#lines, math.max(height - 4, 1)), 1, {})
    for _, line in ipairs(text.flow(sum_up(progress, now), columns - 2, "", style:mark())) do
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
