--- A line diff of two texts.

local changed = {}

local MAX_CELLS = 1000000 -- of the table of common lines; larger texts differ in all lines

local function lines_of(s)
    local lines = {}
    for line in (s:gsub("\n$", "") .. "\n"):gmatch("(.-)\n") do
        lines[#lines + 1] = line
    end
    return lines
end

-- All lines of two texts: {mark, text, line of a, line of b}; the mark is " ", "-" or "+".
local function all_lines(before, after)
    local a, b = lines_of(before), lines_of(after)
    local first, last_a, last_b = 0, #a, #b -- lines before and after these are equal
    while first < math.min(#a, #b) and a[first + 1] == b[first + 1] do
        first = first + 1
    end
    while last_a > first and last_b > first and a[last_a] == b[last_b] do
        last_a, last_b = last_a - 1, last_b - 1
    end
    -- lengths[i][j]: the longest common subsequence of lines i.. of a and j.. of b.
    local lengths = (last_a - first) * (last_b - first) <= MAX_CELLS and { [last_a + 1] = {} }
    for i = lengths and last_a or 0, first + 1, -1 do
        local row, below = {}, lengths[i + 1]
        for j = last_b, first + 1, -1 do
            row[j] = a[i] == b[j] and (below[j + 1] or 0) + 1
                or math.max(below[j] or 0, row[j + 1] or 0)
        end
        lengths[i] = row
    end
    local all, i, j = {}, 1, 1
    while i <= #a or j <= #b do
        local in_a, in_b, mark = i > first and i <= last_a, j > first and j <= last_b, " "
        if in_a and not (in_b and lengths and (a[i] == b[j]
            or (lengths[i + 1][j] or 0) < (lengths[i][j + 1] or 0))) then
            mark = "-"
        elseif in_b and not (in_a and a[i] == b[j]) then
            mark = "+"
        end
        all[#all + 1] = { mark, mark == "+" and b[j] or a[i], i, j }
        i, j = i + (mark ~= "+" and 1 or 0), j + (mark ~= "-" and 1 or 0)
    end
    return all
end

---The removed and the added lines, in order.
---@return {mark: "-"|"+", line: integer, text: string}[] lines `line`: its number in its own text
function changed.lines(before, after)
    local found = {}
    for _, one in ipairs(all_lines(before, after)) do
        found[#found + 1] = one[1] ~= " " and { mark = one[1], text = one[2],
            line = one[1] == "-" and one[3] or one[4] } or nil
    end
    return found
end

local CONTEXT = 3 -- equal lines around a change

---The differences of two texts in unified form.
---@param from string name of the first
---@return string text "" if they are equal
function changed.unified(before, after, from, to)
    local all, out, at = all_lines(before, after), { "--- " .. from, "+++ " .. to }, 1
    while at <= #all do
        while all[at] and all[at][1] == " " do
            at = at + 1
        end
        if not all[at] then
            break
        end
        local first, last = at, at
        while all[at] and at - last <= 2 * CONTEXT do
            last = all[at][1] ~= " " and at or last
            at = at + 1
        end
        first, last = math.max(first - CONTEXT, 1), math.min(last + CONTEXT, #all)
        local counts, place = { [" "] = 0, ["-"] = 0, ["+"] = 0 }, #out + 1
        for k = first, last do
            counts[all[k][1]] = counts[all[k][1]] + 1
            out[place + 1 + k - first] = all[k][1] .. all[k][2]
        end
        out[place] = ("@@ -%d,%d +%d,%d @@"):format(all[first][3], counts[" "] + counts["-"],
            all[first][4], counts[" "] + counts["+"])
        at = last + 1
    end
    return out[3] and table.concat(out, "\n") or ""
end

return changed
