--- Writes the pages that were made when ponder was built: see scripts/reference/pages.lua.

local host = require "ponder.core.host"
local json = require "ponder.json"
local styles = require "ponder.show.style"
local text = require "ponder.show.text"

local render = {}

---A table that was made when ponder was built.
---@param name string "reference"
function render.read(name)
    return (assert(json.decode(host.embedded(("doc/%s.json"):format(name)))))
end

local LEAST = 8 -- columns of a paragraph

---The lines of a page.
---@param page table[] its blocks
function render.lines(page, columns, style)
    local lines = {}
    for _, block in ipairs(page) do
        if block.rows then
            local rows = block.width <= columns and block.rows
                or render.lines(block.blocks, columns, style)
            table.move(rows, 1, #rows, #lines + 1, lines)
        elseif type(block) == "string" then
            lines[#lines + 1] = block
        else
            local first, hang, words, is_bold = table.unpack(block)
            local blanks, name, gap = first:match("^( *)(.-)( *)$")
            local painted = blanks .. style:paint(name, is_bold and "bold" or nil) .. gap
            if hang > columns // 2 and hang + text.width(words) > columns then -- on two lines
                lines[#lines + 1], hang = painted:gsub(" *$", ""), #blanks + 4
                painted = (" "):rep(hang)
            end
            for i, line in ipairs(text.wrap(words, math.max(columns - hang, LEAST))) do
                lines[#lines + 1] = (i == 1 and painted or (" "):rep(hang)) .. line
            end
        end
    end
    return lines
end

---Prints a page on standard output.
---@param reference table of render.read
---@param numbers integer[] of its blocks
---@param columns? integer default: the terminal's
function render.print(reference, numbers, columns)
    local style, page = styles.of(1), {}
    for i, number in ipairs(numbers) do
        page[i] = reference.blocks[number]
    end
    io.write(table.concat(render.lines(page, columns or (style:size()), style), "\n"), "\n")
end

return render
