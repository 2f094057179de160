--- The normal, the binomial and Student's distribution with nearly full double precision. Does not
--- check arguments.

local distributions = {}

local ROOT_2_PI = math.sqrt(2 * math.pi)
local TINY = 1e-300 -- replaces a zero denominator in a continued fraction
local EPSILON = 2.0 ^ -53

-- Of a binomial distribution: with more, the continued fraction does not converge in time.
distributions.MAX_TRIALS = 1 << 30

-------------------------------------------------------------------------------
-- Normal

---1 - erf(x), with full relative precision even for small results: by the power series of erf
---without alternating signs (Abramowitz and Stegun 7.1.6) for |x| < 2.5, else by the continued
---fraction of erfc (7.1.14), evaluated bottom up.
---@param x number
---@return number
function distributions.erfc(x)
    if x < 0 then
        return 2 - distributions.erfc(-x)
    end
    if x < 2.5 then
        local term, sum, n = x, x, 0
        repeat
            n = n + 1
            term = term * 2 * x * x / (2 * n + 1)
            sum = sum + term
        until term <= sum * EPSILON
        return 1 - 2 / math.sqrt(math.pi) * math.exp(-x * x) * sum
    end
    local tail = x
    for n = 100, 1, -1 do
        tail = x + n / 2 / tail
    end
    return math.exp(-x * x) / (math.sqrt(math.pi) * tail)
end

-- x with P(Z > x) = q for q <= 1/2, by Newton's method on log q from an upper bound.
local function upper_quantile(q)
    local x = math.sqrt(-2 * math.log(2 * q)) -- an upper bound, by erfc(x) <= exp(-x^2)
    for _ = 1, 50 do
        local tail = 0.5 * distributions.erfc(x / math.sqrt(2))
        local density = math.exp(-x * x / 2) / ROOT_2_PI
        local step = tail * math.log(tail / q) / density
        x = math.max(0, x + step)
        if math.abs(step) <= 4 * EPSILON * x then
            break
        end
    end
    return x
end

---The quantile of the standard normal distribution whose upper tail is `q`. With a confidence level
---conf, `normal_upper((1 - conf) / 2)` is z.
---@param q number above 0 and below 1
---@return number
function distributions.normal_upper(q)
    if q == 0.5 then
        return 0.0
    end
    return q < 0.5 and upper_quantile(q) or -upper_quantile(1 - q)
end

-------------------------------------------------------------------------------
-- Binomial

-- The error of Stirling's formula for log n!.
local function stirling_error(n)
    if n < 16 then
        local log_factorial = 0.0
        for i = 2, n do
            log_factorial = log_factorial + math.log(i)
        end
        return log_factorial - (n + 0.5) * math.log(n) + n - math.log(ROOT_2_PI)
    end
    local nn = n * n
    return (1 / 12 - (1 / 360 - (1 / 1260 - (1 / 1680 - 1 / 1188 / nn) / nn) / nn) / nn) / n
end

-- x log(x / m) + m - x, precise even if x is near m.
local function deviance(x, m)
    if math.abs(x - m) < 0.1 * (x + m) then
        local v = (x - m) / (x + m)
        local sum, term, j = (x - m) * v, 2 * x * v, 0
        repeat
            j = j + 1
            term = term * v * v
            local previous = sum
            sum = sum + term / (2 * j + 1)
        until sum == previous
        return sum
    end
    return x * math.log(x / m) + m - x
end

---P(X = k) for X ~ Bin(n, p), by the saddle point expansion of Loader 2000, "Fast and Accurate
---Computation of Binomial Probabilities".
---@param k integer
---@param n integer
---@param p number
---@return number
function distributions.binomial_density(k, n, p)
    if k < 0 or k > n then
        return 0.0
    elseif n == 0 or p == 0 or p == 1 then
        return k == n * p and 1.0 or 0.0
    elseif k == 0 or k == n then
        local q = k == 0 and 1 - p or p
        if k == 0 and p < 0.1 then
            return math.exp(-deviance(n, n * q) - n * p)
        end
        return q ^ n
    end
    local exponent = stirling_error(n) - stirling_error(k) - stirling_error(n - k)
        - deviance(k, n * p) - deviance(n - k, n * (1 - p))
    return math.exp(exponent) * math.sqrt(n / (k * (n - k))) / ROOT_2_PI
end

-- The continued fraction of the incomplete beta function (Abramowitz and Stegun 26.5.8), by Lentz's
-- method.
local function beta_fraction(x, a, b)
    local c, d = 1.0, 1 - (a + b) * x / (a + 1)
    d = 1 / (d == 0 and TINY or d)
    local product = d
    for m = 1, 100000 do
        for odd = 0, 1 do
            local numerator
            if odd == 0 then
                numerator = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
            else
                numerator = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
            end
            d = 1 + numerator * d
            d = 1 / (d == 0 and TINY or d)
            c = 1 + numerator / c
            c = c == 0 and TINY or c
            product = product * c * d
        end
        if math.abs(c * d - 1) < 4 * EPSILON then
            break
        end
    end
    return product
end

---P(X >= k) for X ~ Bin(n, p): the regularized incomplete beta function I_p(k, n - k + 1).
---@param k integer
---@param n integer
---@param p number
---@return number
function distributions.binomial_upper(k, n, p)
    if k <= 0 then
        return 1.0
    elseif k > n or p == 0 then
        return 0.0
    elseif p == 1 then
        return 1.0
    end
    local density = distributions.binomial_density
    if p < (k + 1) / (n + 3) then
        return density(k, n, p) * (1 - p) * beta_fraction(p, k, n - k + 1)
    end
    return 1 - density(k - 1, n, p) * p * beta_fraction(1 - p, n - k + 1, k)
end

---P(X <= k) for X ~ Bin(n, p).
---@param k integer
---@param n integer
---@param p number
---@return number
function distributions.binomial_lower(k, n, p)
    return distributions.binomial_upper(n - k, n, 1 - p)
end

---The p for which P(X >= k) is `tail`, by bisection to the last bit.
---@param k integer 1 to n
---@param n integer
---@param tail number
---@return number
function distributions.binomial_solve(k, n, tail)
    local low, high = 0.0, 1.0
    while true do
        local middle = low + (high - low) / 2
        if middle <= low or middle >= high or high - low < EPSILON * high then
            return middle
        elseif distributions.binomial_upper(k, n, middle) < tail then
            low = middle
        else
            high = middle
        end
    end
end

-------------------------------------------------------------------------------
-- Student

local MAX_DF = 1000000 -- with more, the distribution is taken as normal

local function log_gamma(x)
    local shift = 0.0
    while x < 16 do
        shift, x = shift + math.log(x), x + 1
    end
    return (x - 0.5) * math.log(x) - x + math.log(ROOT_2_PI) + stirling_error(x) - shift
end

---P(|T| >= t) for Student's distribution: the regularized incomplete beta function
---I_x(df / 2, 1 / 2) with x = df / (df + t^2).
---@param t number 0 or more
---@param df integer degrees of freedom, 1 or more
---@return number
function distributions.student_tails(t, df)
    if df > MAX_DF then
        return distributions.erfc(t / math.sqrt(2))
    elseif t == 0 or t == math.huge then
        return t == 0 and 1.0 or 0.0
    end
    local a, b, x, y = df / 2, 0.5, df / (df + t * t), t * t / (df + t * t)
    local factor = math.exp(log_gamma(a + b) - log_gamma(a) - log_gamma(b) + a * math.log(x)
        + b * math.log(y))
    if x < (a + 1) / (a + b + 2) then
        return factor / a * beta_fraction(x, a, b)
    end
    return 1 - factor / b * beta_fraction(y, b, a)
end

local students = {} -- by tail and degrees of freedom

---The t for which P(T >= t) = q, for Student's distribution.
---@param q number above 0 and below 1/2
---@param df integer degrees of freedom, 1 or more
---@return number
function distributions.student_upper(q, df)
    if df > MAX_DF then
        return distributions.normal_upper(q)
    end
    local known = students[q] or {}
    students[q] = known
    if not known[df] then
        local low, high = 0.0, 1.0
        while distributions.student_tails(high, df) > 2 * q do
            low, high = high, 2 * high
        end
        for _ = 1, 60 do
            local middle = low + (high - low) / 2
            if distributions.student_tails(middle, df) > 2 * q then
                low = middle
            else
                high = middle
            end
        end
        known[df] = high
    end
    return known[df]
end

return distributions
