--- The live view of a run, redrawn in place on a terminal:
---
---     tot evaluating, 7 thoughts, best 0.80, 12 calls, 3.4k tokens, 8.1 s
---       2 in flight: generate 1.2 s, evaluate 0.4 s
---     > 6 * 4 = 24
---
--- Between redraws the cursor stays at the end of the last line. Terminals re-wrap lines when the
--- window gets narrower, so each redraw counts the previous lines by the present width. The view
--- never changes the state of the terminal, so a killed process leaves it usable. After Ctrl-Z and
--- fg it is drawn below the shell's output.

local amount = require "ponder.show.amount"
local quote = require "ponder.quote"
local sources = require "ponder.run.task.sources"
local task = require "ponder.task"
local text = require "ponder.show.text"

local view = {}

local MAX_CALLS = 8
local ROUNDS = 3 -- scheduler rounds from a reply to the calls that follow it
local MARGIN = 2 -- free columns, for the ^C that a terminal echoes

---@class ponder.show.View
local View = {}
View.__index = View

---@param out file* the terminal
---@param style ponder.show.Style its style
---@param progress ponder.show.Progress? what it shows
---@return ponder.show.View
function view.new(out, style, progress)
    return setmetatable({ out = out, style = style, progress = progress, drawn = {} }, View)
end

local function calls_of(p)
    local pieces = {}
    for i, call in ipairs(p.in_flight) do
        if i > MAX_CALLS then
            pieces[i] = ("and %d more"):format(#p.in_flight - MAX_CALLS)
            break
        end
        pieces[i] = ("%s %s"):format(call.role, amount.seconds(p.now() - call.since))
    end
    if pieces[1] then
        pieces[1] = ("%d in flight: %s"):format(#p.in_flight, pieces[1])
    end
    if p.tools > 0 then
        pieces[#pieces + 1] = quote.count(p.tools, "tool")
    end
    return pieces
end

---The lines to show, as plain text.
function View:lines()
    local p, style = self.progress, self.style
    local columns, rows = style:size()
    columns = columns - MARGIN
    local facts = p:facts()
    table.insert(facts, 1, p.name .. " " .. p.phase)
    local lines = text.flow(facts, columns, "  ", style:mark())
    for _, line in ipairs(text.flow(calls_of(p), columns - 2, "", style:mark())) do
        lines[#lines + 1] = "  " .. line
    end
    if p.answer then
        lines[#lines + 1] = text.cut("> " .. text.line(p.answer), columns, style:mark())
    end
    return table.move(lines, 1, math.min(#lines, math.max(rows - 1, 1)), 1, {})
end

-- The escape sequence that moves the cursor to the first drawn line.
local function to_first_line(self)
    local columns, up = self.style:size(), -1
    for _, line in ipairs(self.drawn) do
        up = up + math.max(1, (text.width(line) + columns - 1) // columns)
    end
    return up > 0 and ("\r\27[%dA"):format(up) or "\r"
end

---Redraws the view in place.
---@param lines? string[] default: those of the progress
function View:draw(lines)
    if not self.unfollow then
        self.unfollow = sources.follow_signals({ "continue" }, false, function()
            self.drawn = {}
        end)
    end
    lines = lines or self:lines()
    local shown = {}
    for i, line in ipairs(lines) do
        shown[i] = self.style:paint(line, i > 1 and "dim" or nil) .. "\27[K"
    end
    self.out:write(to_first_line(self), table.concat(shown, "\r\n"), "\27[J")
    self.out:flush()
    self.drawn = lines
end

---Draws the view again and again, until it is closed. The task that does so is not part of the run.
---@param seconds number between two drawings
---@return ponder.show.View self
function View:start(seconds)
    self.drawing = task.with_context("outside", true, task.spawn, function()
        while true do
            task.sleep(seconds)
            for _ = 1, ROUNDS do
                task.sleep(0.001) -- let the scheduler handle everything that has arrived
            end
            self:draw()
        end
    end)
    return self
end

---Ends the drawing and erases the view.
function View:close()
    self.drawing:cancel()
    self:clear()
end
View.__close = View.close

---Erases the view.
function View:clear()
    if self.unfollow then
        self.unfollow()
        self.unfollow = nil
    end
    if #self.drawn > 0 then
        self.out:write(to_first_line(self), "\27[J")
        self.out:flush()
        self.drawn = {}
    end
end

return view
