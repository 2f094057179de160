--- Base64 (RFC 4648, section 4). libcurl has an encoder, but does not export it.

local base64 = {}

local ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"

local letters, values = {}, {} -- 12 bits to two letters; a letter to 6 bits
for i = 1, 64 do
    values[ALPHABET:byte(i)] = i - 1
end

---@return string text padded, in one line
function base64.encode(bytes)
    if not letters[0] then -- filled on first use: most programs encode nothing
        for i = 0, 4095 do
            local a, b = (i >> 6) + 1, (i & 63) + 1
            letters[i] = ALPHABET:sub(a, a) .. ALPHABET:sub(b, b)
        end
    end
    local out, whole = {}, #bytes - #bytes % 3
    for i = 1, whole, 3 do
        local a, b, c = bytes:byte(i, i + 2)
        local bits = a << 16 | b << 8 | c
        out[#out + 1] = letters[bits >> 12]
        out[#out + 1] = letters[bits & 4095]
    end
    local a, b = bytes:byte(whole + 1, -1)
    if b then
        out[#out + 1] = letters[a << 4 | b >> 4] .. letters[(b & 15) << 8]:sub(1, 1) .. "="
    elseif a then
        out[#out + 1] = letters[a << 4] .. "=="
    end
    return table.concat(out)
end

---@param text string with or without padding
---@return string? bytes nil: invalid base64
function base64.decode(text)
    local bytes, bits, count = {}, 0, 0
    for i = 1, #text:gsub("=?=$", "") do
        local value = values[text:byte(i)]
        if not value then
            return nil
        end
        bits, count = (bits << 6 | value) & 0xFFFF, count + 6
        if count >= 8 then
            count = count - 8
            bytes[#bytes + 1] = string.char(bits >> count & 0xFF)
        end
    end
    return table.concat(bytes)
end

return base64
