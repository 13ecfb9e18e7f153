/* For programs that include Damaris's own header. */
#include "wattio_damaris.h"
