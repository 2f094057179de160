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

-- lengths[i][j]: the length of the longest common subsequence of lines i.. of a and j.. of b.
local function common_lengths(a, b)
    local lengths = { [#a + 1] = {} }
    for i = #a, 1, -1 do
        local row, below = {}, lengths[i + 1]
        for j = #b, 1, -1 do
            row[j] = a[i] == b[j] and (below[j + 1] or 0) + 1
                or math.max(below[j] or 0, row[j + 1] or 0)
        end
        lengths[i] = row
    end
    return lengths
end

local function walk(a, b, first, put)
    local lengths = #a * #b <= MAX_CELLS and common_lengths(a, b)
    local i, j = 1, 1
    while i <= #a or j <= #b do
        if lengths and i <= #a and j <= #b and a[i] == b[j] then
            i, j = i + 1, j + 1
        elseif i <= #a and (j > #b or not lengths
            or (lengths[i + 1][j] or 0) >= (lengths[i][j + 1] or 0)) then
            put("-", first + i, a[i])
            i = i + 1
        else
            put("+", first + j, b[j])
            j = j + 1
        end
    end
end

---The removed and the added lines, in order.
---@param before string
---@param after string
---@return {mark: "-"|"+", line: integer, text: string}[] lines `line`: its number in its own text
function changed.lines(before, after)
    local a, b = lines_of(before), lines_of(after)
    local first = 0
    while first < #a and first < #b and a[first + 1] == b[first + 1] do
        first = first + 1
    end
    local last_a, last_b = #a, #b
    while last_a > first and last_b > first and a[last_a] == b[last_b] do
        last_a, last_b = last_a - 1, last_b - 1
    end
    local found = {}
    walk(table.move(a, first + 1, last_a, 1, {}), table.move(b, first + 1, last_b, 1, {}), first,
        function(mark, line, text)
            found[#found + 1] = { mark = mark, line = line, text = text }
        end)
    return found
end

local CONTEXT = 3 -- equal lines around a change

---The differences of two texts in unified form.
---@param before string
---@param after string
---@param from string name of the first
---@param to string
---@return string text "" if they are equal
function changed.unified(before, after, from, to)
    local a, found = lines_of(before), changed.lines(before, after)
    local all, i, j = {}, 1, 1 -- {mark, text, line of a, line of b}
    local function put(mark, line)
        all[#all + 1] = { mark, line, i, j }
        i, j = i + (mark ~= "+" and 1 or 0), j + (mark ~= "-" and 1 or 0)
    end
    for _, one in ipairs(found) do
        while (one.mark == "-" and i or j) < one.line do
            put(" ", a[i])
        end
        put(one.mark, one.text)
    end
    while i <= #a do
        put(" ", a[i])
    end
    local out, at = { "--- " .. from, "+++ " .. to }, 1
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
    return found[1] and table.concat(out, "\n") or ""
end

return changed
